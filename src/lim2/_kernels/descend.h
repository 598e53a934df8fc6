/* Stochastic gradient descent of NeuralUCB's and NeuralTS's network: one sample per step. */
#pragma once

#include "algebra.h"

/* Below this the scale is multiplied into the weights, long before anything can underflow. */
static const double SMALLEST_SCALE = 1e-6;

/* One hidden layer of `units`; the weights are `scale` times the blocks, (arms, features, units). */
typedef struct {
    double *blocks, *bias, *head;
    double scale, head_bias;
    Size arms, features, units;
} BlockNetwork;

typedef struct {
    const double *contexts, *rewards;
    const Size *arms;
    Size count;
} Samples;

typedef struct {
    double rate, keep;
} Step;

/* Write the hidden activations of one context, and return the output. */
static double block_output(const BlockNetwork *f, const double *block, const double *context, double *restrict hidden) {
    const double *restrict bias = f->bias, *restrict head = f->head;
    const double scale = f->scale;
    double output = f->head_bias;
    fill(f->units, 0.0, hidden);
    add_weighted_rows(f->features, f->units, context, block, hidden);
    for (Size j = 0; j < f->units; j++) {
        hidden[j] = positive(scale * hidden[j] + bias[j]);
        output += head[j] * hidden[j];
    }
    return output;
}

/* Take one step; `slope` is the error's, times the rate. `hidden` turns into what is subtracted from the rows. */
static void block_step(BlockNetwork *f, double *block, const double *context, double slope, double keep,
                       double *restrict hidden) {
    double *restrict bias = f->bias, *restrict head = f->head;
    f->scale *= keep;
    f->head_bias = keep * f->head_bias - slope;
    const double inverse = 1.0 / f->scale;
    for (Size j = 0; j < f->units; j++) {
        const double inner = hidden[j] > 0.0 ? slope * head[j] : 0.0;
        head[j] = keep * head[j] - slope * hidden[j];
        bias[j] = keep * bias[j] - inner;
        hidden[j] = inner * inverse;
    }
    add_outer(f->features, f->units, -1.0, context, hidden, block);
}

static void fold_scale(BlockNetwork *f) {
    const Size size = f->arms * f->features * f->units;
    for (Size i = 0; i < size; i++)
        f->blocks[i] *= f->scale;
    f->scale = 1.0;
}

/* Go through the samples again and again, one step each; `loss` is the mean squared error of the last pass. */
static Size descend_in_place(BlockNetwork *f, const Samples *samples, Size steps, Step step, double stop_loss,
                             double *hidden, double *loss) {
    Size taken = 0;
    *loss = 0.0;
    while (taken < steps && samples->count > 0) {
        double total = 0.0;
        const Size count = samples->count < steps - taken ? samples->count : steps - taken;
        for (Size i = 0; i < count; i++) {
            const double *context = samples->contexts + i * f->features;
            double *block = f->blocks + samples->arms[i] * f->features * f->units;
            const double error = block_output(f, block, context, hidden) - samples->rewards[i];
            total += error * error;
            block_step(f, block, context, 2.0 * step.rate * error, step.keep, hidden);
            if (f->scale < SMALLEST_SCALE)
                fold_scale(f);
        }
        taken += count;
        *loss = total / (double)count;
        if (*loss <= stop_loss)
            break;
    }
    fold_scale(f);
    return taken;
}
