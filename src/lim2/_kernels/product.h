/* Products of matrices, by blocks whose sums stay in registers. */
#pragma once

#include "algebra.h"

enum { BLOCK_ROWS = 4, BLOCK_COLUMNS = 8 };

/* A matrix whose element (i, p) is start[i * row + p * column]. */
typedef struct {
    const double *start;
    Size row, column;
} Matrix;

#if !defined(__GNUC__)
enum { LANES = 1 };
typedef double Lanes;
#elif defined(__AVX2__)
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif
#if defined(__GNUC__)
typedef double Lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
#endif
enum { PARTS = BLOCK_COLUMNS / LANES };

/* out[i, j] = the sum over p < depth of a[i, p] b[p, j], for a block of i and j. */
static inline void block_product(Size depth, Matrix a, const double *b, Size b_row, double *out, Size out_row) {
    Lanes sums[BLOCK_ROWS][PARTS] = {0};
    for (Size p = 0; p < depth; p++) {
        const Lanes *row = (const Lanes *)(b + p * b_row);
        for (int i = 0; i < BLOCK_ROWS; i++) {
            const double factor = a.start[i * a.row + p * a.column];
            for (int part = 0; part < PARTS; part++)
                sums[i][part] += factor * row[part];
        }
    }
    for (int i = 0; i < BLOCK_ROWS; i++)
        for (int part = 0; part < PARTS; part++)
            ((Lanes *)(out + i * out_row))[part] = sums[i][part];
}

/* One row of the product: a combination of rows of b. */
static void row_product(Size columns, Size depth, const double *a, Size a_column, const double *b, double *out) {
    fill(columns, 0.0, out);
    if (a_column == 1)
        add_weighted_rows(depth, columns, a, b, out);
    else
        for (Size p = 0; p < depth; p++)
            add_scaled(columns, a[p * a_column], b + p * columns, out);
}

/* out = a b, of a (rows, depth) and b (depth, columns); out has a distance between its rows.
   Where the last block would go beyond the end, it overlaps the one before it, and computes the same again. */
static void product(Size rows, Size columns, Size depth, Matrix a, const double *b, double *out, Size out_row) {
    if (rows < BLOCK_ROWS || columns < BLOCK_COLUMNS) {
        for (Size i = 0; i < rows; i++)
            row_product(columns, depth, a.start + i * a.row, a.column, b, out + i * out_row);
        return;
    }
    for (Size next = 0; next < rows; next += BLOCK_ROWS) {
        const Size i = next + BLOCK_ROWS <= rows ? next : rows - BLOCK_ROWS;
        const Matrix part = {a.start + i * a.row, a.row, a.column};
        for (Size after = 0; after < columns; after += BLOCK_COLUMNS) {
            const Size j = after + BLOCK_COLUMNS <= columns ? after : columns - BLOCK_COLUMNS;
            block_product(depth, part, b + j, columns, out + i * out_row + j, out_row);
        }
    }
}
