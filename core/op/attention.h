/* SPDX-License-Identifier: MIT */
/*
** Arguments of attention, and how its work is cut.
*/
#ifndef RIDGE_OP_ATTENTION_H
#define RIDGE_OP_ATTENTION_H

#include "op/dropout.h"
#include "op/op.h"
#include "ridge/attention.h"

/* Inputs of attention and attention_back; the mask may be NULL.  The draw is the gradient's, with
** dropout. */
enum { RG_ATT_Q, RG_ATT_K, RG_ATT_V, RG_ATT_MASK, RG_ATT_Y, RG_ATT_LSE, RG_ATT_DY, RG_ATT_DRAW };

/* clang-format off */
#define RG_ATTENTION_ARGS(A, S, AT) \
  A(S, AT, f64, scale, NUMBER, 0, "of the scores; left out or 0: 1 / sqrt(d)") \
  A(S, AT, i32, causal, FLAG, 0, "a query sees no later key") \
  A(S, AT, i32, block, WHOLE, 64, "queries and keys an element of the mask stands for")
#define RG_ATTENTION_DROPOUT_ARGS(A, S, AT) \
  RG_ATTENTION_ARGS(A, S, AT) \
  RG_DROPOUT_ARGS(A, S, AT)
/* clang-format on */
RG_ARGS_STRUCT(rg_attention_args, RG_ATTENTION_DROPOUT_ARGS);

/* Sizes of one call. */
typedef struct rg_attention_sizes {
  int64_t heads; /* all leading axes together */
  int64_t n;     /* queries */
  int64_t m;     /* keys */
  int64_t d;     /* of a query and of a key */
  int64_t e;     /* of a value */
} rg_attention_sizes;

rg_attention_sizes rg_attention_sizes_of(const rg_call *call);

enum {
  /* of a tile of scores; measured, forward: 32 x 256 is 5 % faster in f32 and 15 % in bf16 than
  ** 64 x 128, which is 10 % faster than 64 x 64 */
  RG_ATT_QUERIES = 32,
  RG_ATT_KEYS = 256,
  RG_ATT_KEYS_MASKED = 64, /* where a mask may leave out a part of them */
  RG_ATT_BACK_QUERIES = 64,
  RG_ATT_BACK_KEYS = 128,
  RG_ATT_GROUP = 512 /* queries that share one pass over the keys */
};

/* Pieces that threads share forward: groups of queries of a head.  Back it is heads. */
int64_t rg_attention_items(const rg_attention_sizes *s);

/* Bytes one thread works in. */
int64_t rg_attention_room(const rg_attention_sizes *s);
int64_t rg_attention_back_room(const rg_attention_sizes *s);

#endif
