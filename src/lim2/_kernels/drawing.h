/* Random draws: a batch of the memory, and scores. */
#pragma once

#include "algebra.h"

#include <numpy/random/bitgen.h>
#include <numpy/random/distributions.h>

/* Tuples known by slots, 0 to held - 1; `order` has the row of each slot, NULL: it is the same. */
typedef struct {
    const Size *order, *arms;
    Size held, rows, n_arms;
} Memory;

typedef struct {
    Size *slots, *rows, *arms;
} Batch;

static Size slot_of(double uniform, Size held) {
    const double place = uniform * (double)held;
    return place >= 0.0 && place < (double)held ? (Size)place : -1;
}

/* Return the row of a slot; -1 where the memory has none with an arm that exists. */
static Size row_of(const Memory *memory, Size slot) {
    if (slot < 0)
        return -1;
    const Size row = memory->order ? memory->order[slot] : slot;
    if (row < 0 || row >= memory->rows || memory->arms[row] < 0 || memory->arms[row] >= memory->n_arms)
        return -1;
    return row;
}

/* Write a batch sorted by arm, in the order of drawing within an arm; return whether all rows exist.
   `next` has a place for each arm and one more: where its next tuple goes. */
static int draw_batch(Size count, const double *uniforms, const Memory *memory, Size *next, Batch out) {
    for (Size arm = 0; arm <= memory->n_arms; arm++)
        next[arm] = 0;
    for (Size i = 0; i < count; i++) {
        const Size row = row_of(memory, slot_of(uniforms[i], memory->held));
        if (row < 0)
            return 0;
        next[memory->arms[row] + 1]++;
    }
    for (Size arm = 0; arm < memory->n_arms; arm++)
        next[arm + 1] += next[arm];
    for (Size i = 0; i < count; i++) {
        const Size slot = slot_of(uniforms[i], memory->held), row = row_of(memory, slot), arm = memory->arms[row];
        const Size place = next[arm]++;
        out.slots[place] = slot;
        out.rows[place] = row;
        out.arms[place] = arm;
    }
    return 1;
}

/* Draw mean + scale (optimism + temperature t) for each arm, with t Student-t, or normal where freedom is infinite. */
static void draw_scores(Size n, bitgen_t *source, const double *mean, const double *scale, const double *freedom,
                        double optimism, double temperature, double *out) {
    for (Size k = 0; k < n; k++) {
        const double t = isinf(freedom[k]) ? random_standard_normal(source) : random_standard_t(source, freedom[k]);
        out[k] = (optimism + temperature * t) * scale[k] + mean[k];
    }
}
