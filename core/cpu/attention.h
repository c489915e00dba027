/* SPDX-License-Identifier: MIT */
/*
** What attention and its gradients share on the CPU: which scores there are.
*/
#ifndef RIDGE_CPU_ATTENTION_H
#define RIDGE_CPU_ATTENTION_H

#include "cpu/cpu.h"
#include "op/attention.h"

/* One call. */
typedef struct rg_att {
  const rg_call *call;
  rg_attention_sizes s;
  rg_attention_args args;
  const rg_tensor *mask; /* or NULL */
  rg_draw draw;          /* of dropout, where args.p > 0 */
} rg_att;

rg_att rg_att_of(const rg_call *call);

/* Queries q0 .. q0+nq and keys k0 .. k0+nk. */
typedef struct rg_att_tile {
  int64_t q0, nq;
  int64_t k0, nk;
} rg_att_tile;

enum { RG_ATT_NONE, RG_ATT_SOME, RG_ATT_ALL };

/* How many of its scores there are. */
int32_t rg_att_cover(const rg_att *w, const rg_att_tile *t);

/* Does query i see key j? */
bool rg_att_sees(const rg_att *w, int64_t i, int64_t j);

/* Put value where there is no score: x[query * ldx + key], or transposed x[key * ldx + query]. */
void rg_att_hide(const rg_att *w, const rg_att_tile *t, float *x, int64_t ldx, bool transposed,
                 float value);

/* Keys of a tile: so many, or fewer where there is a mask. */
int64_t rg_att_keys(const rg_att *w, int64_t most);

/* -- Dropout ---------------------------------------------------------------------------------- */

/* What the weights that are kept are multiplied by. */
double rg_att_grown(const rg_att *w);

/* The numbers of query i for keys j .. j+n. */
void rg_att_numbers(const rg_att *w, int64_t head, int64_t i, int64_t j, uint32_t *to, int64_t n);

/* The same in f64, without tiles (attention_direct.c). */
rg_status rg_attention_direct(const rg_att *w, rg_tensor *const *out) RG_CHECK;
rg_status rg_attention_back_direct(const rg_att *w, rg_tensor *const *out) RG_CHECK;

#endif
