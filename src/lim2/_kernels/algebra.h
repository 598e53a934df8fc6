/* Sums of products. Loops are plain, so that compilers make vectors of them. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <string.h>

/* max(x, 0), and NaN of NaN, as in NumPy. */
static inline double positive(double x) {
    return 0.0 > x ? 0.0 : x;
}

static void fill(Size n, double value, double *restrict out) {
    for (Size j = 0; j < n; j++)
        out[j] = value;
}

static double dot(Size n, const double *restrict x, const double *restrict y) {
    double sum = 0.0;
    for (Size j = 0; j < n; j++)
        sum += x[j] * y[j];
    return sum;
}

/* out = the products of four rows of a matrix with x. */
static void four_dots(Size n, const double *restrict rows, const double *restrict x, double *restrict out) {
    const double *restrict a = rows, *restrict b = a + n, *restrict c = b + n, *restrict d = c + n;
    double p = 0.0, q = 0.0, r = 0.0, s = 0.0;
    for (Size j = 0; j < n; j++) {
        p += a[j] * x[j];
        q += b[j] * x[j];
        r += c[j] * x[j];
        s += d[j] * x[j];
    }
    out[0] = p, out[1] = q, out[2] = r, out[3] = s;
}

/* The Euclidean norm; where squares are too large, numbers are made smaller first. */
static double norm(Size n, const double *x) {
    const double tiny = 1e-160;
    double sum = dot(n, x, x);
    if (sum < 1e300)
        return sqrt(sum);
    sum = 0.0;
    for (Size j = 0; j < n; j++)
        sum += tiny * x[j] * (tiny * x[j]);
    return sqrt(sum) / tiny;
}

/* out += factor x */
static inline void add_scaled(Size n, double factor, const double *restrict x, double *restrict out) {
    for (Size j = 0; j < n; j++)
        out[j] += factor * x[j];
}

/* out += weights' rows, for (count, n) rows: four rows at a time, so that sums are written a quarter as often. */
static void add_weighted_rows(Size count, Size n, const double *restrict weights, const double *restrict rows,
                              double *restrict out) {
    Size i = 0;
    for (; i + 4 <= count; i += 4) {
        const double *restrict a = rows + i * n, *restrict b = a + n, *restrict c = b + n, *restrict d = c + n;
        const double p = weights[i], q = weights[i + 1], r = weights[i + 2], s = weights[i + 3];
        for (Size j = 0; j < n; j++)
            out[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j];
    }
    for (; i < count; i++)
        add_scaled(n, weights[i], rows + i * n, out);
}

/* rows += factor (weights, x)', for (count, n) rows: four rows at a time, so that x is read a quarter as often. */
static void add_outer(Size count, Size n, double factor, const double *restrict weights, const double *restrict x,
                      double *restrict rows) {
    Size i = 0;
    for (; i + 4 <= count; i += 4) {
        double *restrict a = rows + i * n, *restrict b = a + n, *restrict c = b + n, *restrict d = c + n;
        const double p = factor * weights[i], q = factor * weights[i + 1];
        const double r = factor * weights[i + 2], s = factor * weights[i + 3];
        for (Size j = 0; j < n; j++) {
            a[j] += p * x[j];
            b[j] += q * x[j];
            c[j] += r * x[j];
            d[j] += s * x[j];
        }
    }
    for (; i < count; i++)
        add_scaled(n, factor * weights[i], x, rows + i * n);
}
