/* SPDX-License-Identifier: MIT */
/*
** What the records of products share: the result's type, the sizes that must agree, the arguments.
** Kernels and layers read the argument structs from here.
*/
#ifndef RIDGE_OP_PRODUCT_H
#define RIDGE_OP_PRODUCT_H

#include "op/op.h"

/* matmul */
typedef struct rg_matmul_args {
  int32_t compute; /* RG_BF16: factors are read in bf16 and the result is dtype; -1: as they are */
  int32_t dtype;
} rg_matmul_args;

/* A matrix product in bf16 of factors of any float type, with the result in a type of its own: what
** is to be f32 is not rounded on the way. */
rg_status rg_matmul_bf16(const rg_tensor *x, const rg_tensor *y, int32_t dtype,
                         rg_tensor **out) RG_CHECK;

/* linear, linear_dropout, lowrank_linear */
typedef struct rg_linear_args {
  double p;    /* of linear_dropout */
  int32_t act; /* RG_ACT_... */
  int32_t _pad;
} rg_linear_args;

/* sketched_linear, sketched_linear_bits, sketched_linear_seed */
typedef struct rg_sketch_args {
  double p; /* dropout */
  int32_t n_terms;
  int32_t act;
} rg_sketch_args;

/* Inputs 0 .. n-1 are there; those behind them may be NULL up to the n_most-th. */
rg_status rg_product_arity(const rg_call *call, int32_t n, int32_t n_most) RG_CHECK;

/*
** The type of the result: what autocast asks for, else the type the inputs meet at.
**
** The kernels convert while they pack, so that no converted copy of x or of a weight crosses
** memory; call->compute stays -1.
**
** bits     inputs that are not numbers, bit i for input i
*/
rg_status rg_product_dtype(const rg_call *call, uint32_t bits, bool floats, int32_t *out) RG_CHECK;

/* Input i has ndim axes and the sizes rows and cols (-1: any); what names it in the message. */
rg_status rg_product_matrix(const rg_call *call, int32_t i, int64_t rows, int64_t cols,
                            const char *what) RG_CHECK;

/* Input i, if there, is a vector of n. */
rg_status rg_product_bias(const rg_call *call, int32_t i, int64_t n) RG_CHECK;

/* Fill out: input 0's shape with the last size replaced by n.  RG_ESHAPE for a scalar. */
rg_status rg_product_rows(const rg_call *call, int64_t n_in, int64_t n_out, int32_t dtype,
                          rg_meta *out) RG_CHECK;

rg_status rg_product_act(const rg_call *call, int32_t act) RG_CHECK;

/* Gradients, and what they read by the activation. */
rg_status rg_matmul_grad(rg_grad *g);
rg_status rg_linear_grad(rg_grad *g);
rg_status rg_lowrank_grad(rg_grad *g);
rg_status rg_sketched_grad(rg_grad *g);
rg_status rg_sketched_bits_grad(rg_grad *g);
rg_status rg_sketched_seed_grad(rg_grad *g);
void rg_sketched_save(const rg_call *call, int32_t *in, int32_t *out);
void rg_linear_save(const rg_call *call, int32_t *in, int32_t *out);
void rg_lowrank_save(const rg_call *call, int32_t *in, int32_t *out);

#endif
