/* A network with one hidden layer: features of contexts, and a step of RMSProp on the squared error. */
#pragma once

#include "product.h"

/* Parts of one vector of parameters, or of its gradient. */
typedef struct {
    double *weights, *bias, *head, *head_bias;
} Layers;

typedef struct {
    Size inputs, units, arms;
} Sizes;

typedef struct {
    const double *center, *factor;
    double limit;
} Scaling;

static Size parameters_of(Sizes sizes) {
    return sizes.inputs * sizes.units + sizes.units + sizes.arms * (sizes.units + 1);
}

static Layers layers(Sizes sizes, double *parameters) {
    double *bias = parameters + sizes.inputs * sizes.units, *head = bias + sizes.units;
    return (Layers){parameters, bias, head, head + sizes.arms * sizes.units};
}

/* out = the context, scaled and limited; NaN stays NaN. */
static void scale_row(Size n, Scaling by, const double *restrict context, double *restrict out) {
    for (Size k = 0; k < n; k++) {
        const double x = (context[k] - by.center[k]) * by.factor[k];
        const double below = x > by.limit ? by.limit : x;
        out[k] = below < -by.limit ? -by.limit : below;
    }
}

/* out = max(inputs weights + bias, 0), of rows with a distance between them. */
static void hidden_layer(Size rows, Sizes sizes, Matrix inputs, Layers f, double *out, Size out_row) {
    const double *restrict bias = f.bias;
    product(rows, sizes.units, sizes.inputs, inputs, f.weights, out, out_row);
    for (Size i = 0; i < rows; i++) {
        double *restrict unit = out + i * out_row;
        for (Size j = 0; j < sizes.units; j++)
            unit[j] = positive(unit[j] + bias[j]);
    }
}

/* out = rows of hidden layer, scaled context and 1. */
static void feature_rows(Size rows, Sizes sizes, Layers f, Scaling by, const double *contexts, double *out) {
    const Size width = sizes.units + sizes.inputs + 1;
    for (Size i = 0; i < rows; i++) {
        scale_row(sizes.inputs, by, contexts + i * sizes.inputs, out + i * width + sizes.units);
        out[(i + 1) * width - 1] = 1.0;
    }
    hidden_layer(rows, sizes, (Matrix){out + sizes.units, width, 1}, f, out, width);
}

/* Add to the last layer's gradient and the hidden bias's; return the mean squared error of the rows.
   `hidden` turns from activations into the slopes of the error in their sums. */
static double backward(Size rows, Sizes sizes, Layers f, const Size *arms, const double *rewards, double *hidden,
                       Layers gradient) {
    double loss = 0.0;
    for (Size i = 0; i < rows; i++) {
        const Size arm = arms[i];
        const double *restrict head = f.head + arm * sizes.units;
        double *restrict unit = hidden + i * sizes.units, *restrict head_sum = gradient.head + arm * sizes.units;
        double *restrict bias_sum = gradient.bias;
        const double error = dot(sizes.units, unit, head) + f.head_bias[arm] - rewards[i];
        const double slope = 2.0 / (double)rows * error;
        loss += error * error;
        gradient.head_bias[arm] += slope;
        for (Size j = 0; j < sizes.units; j++) {
            const double inner = unit[j] > 0.0 ? slope * head[j] : 0.0;
            head_sum[j] += slope * unit[j];
            bias_sum[j] += inner;
            unit[j] = inner;
        }
    }
    return loss / (double)rows;
}

/* The mean squared error of a batch, of which only the played arms' outputs count, and its gradient. */
static double mean_squared_error(Size rows, Sizes sizes, Layers f, const double *inputs, const Size *arms,
                                 const double *rewards, double *gradient, double *hidden) {
    const Layers parts = layers(sizes, gradient);
    const Matrix transposed = {inputs, 1, sizes.inputs};
    fill(parameters_of(sizes), 0.0, gradient);
    hidden_layer(rows, sizes, (Matrix){inputs, sizes.inputs, 1}, f, hidden, sizes.units);
    const double loss = backward(rows, sizes, f, arms, rewards, hidden, parts);
    product(sizes.inputs, sizes.units, rows, transposed, hidden, parts.weights, sizes.units);
    return loss;
}

typedef struct {
    double rate, clip, keep, epsilon;
} RMSProp;

/* One step: parameters and mean squares of the gradient, which is scaled to a norm of at most `clip`. */
static void rmsprop(Size n, RMSProp by, double norm, const double *restrict gradient, const double *restrict parameters,
                    const double *restrict mean_square, double *restrict new_parameters,
                    double *restrict new_mean_square) {
    const double shrink = norm > by.clip ? by.clip / norm : 1.0;
    for (Size j = 0; j < n; j++) {
        const double slope = shrink * gradient[j];
        const double square = by.keep * mean_square[j] + (1.0 - by.keep) * (slope * slope);
        new_mean_square[j] = square;
        new_parameters[j] = parameters[j] - by.rate * slope / sqrt(square + by.epsilon);
    }
}
