/* Square-root posteriors over linear weights: scores of all arms, and one more reward of an arm. */
#pragma once

#include "algebra.h"

/* Return the squared length of a square matrix times a vector, which is read once for four rows. */
static double squared_length_of_product(Size n, const double *matrix, const double *x) {
    double sum = 0.0;
    Size i = 0;
    for (; i + 4 <= n; i += 4) {
        double whitened[4];
        four_dots(n, matrix + i * n, x, whitened);
        sum += dot(4, whitened, whitened);
    }
    for (; i < n; i++) {
        const double whitened = dot(n, matrix + i * n, x);
        sum += whitened * whitened;
    }
    return sum;
}

/* product = matrix x and back = matrix' product, for a square matrix that is read once. */
static void there_and_back(Size n, const double *matrix, const double *x, double *product, double *back) {
    Size i = 0;
    fill(n, 0.0, back);
    for (; i + 4 <= n; i += 4) {
        four_dots(n, matrix + i * n, x, product + i);
        add_weighted_rows(4, n, product + i, matrix + i * n, back);
    }
    for (; i < n; i++) {
        product[i] = dot(n, matrix + i * n, x);
        add_scaled(n, product[i], matrix + i * n, back);
    }
}

/* out = matrix + factor x y', for a square matrix. */
static void rank_one_sum(Size n, const double *restrict matrix, double factor, const double *restrict x,
                         const double *restrict y, double *restrict out) {
    for (Size i = 0; i < n; i++) {
        const double share = factor * x[i];
        for (Size j = 0; j < n; j++)
            out[i * n + j] = matrix[i * n + j] + share * y[j];
    }
}

/* What was predicted of a reward: half the squared error in units of the variances of mean and noise; the former. */
typedef struct {
    double half, scale;
} Predicted;

/* Condition an arm on a reward, in Potter's form: new mean and root (S', so that cov = S S'). `whitened` is scratch. */
static Predicted condition(Size n, const double *mean, const double *root, const double *z, double reward,
                           double *whitened, double *new_mean, double *new_root) {
    there_and_back(n, root, z, whitened, new_mean);
    const double scale = 1.0 + dot(n, whitened, whitened), error = reward - dot(n, mean, z);
    rank_one_sum(n, root, -1.0 / (scale + sqrt(scale)), whitened, new_mean, new_root);
    for (Size j = 0; j < n; j++)
        new_mean[j] = mean[j] + error / scale * new_mean[j];
    return (Predicted){0.5 * error * error / scale, scale};
}
