/* SPDX-License-Identifier: MIT */
/*
** What the records of products share: the result's type, the sizes that must agree, the arguments.
** Kernels and layers read the argument structs from here.
*/
#ifndef RIDGE_OP_PRODUCT_H
#define RIDGE_OP_PRODUCT_H

#include "op/dropout.h"
#include "op/op.h"

/* matmul */
/* clang-format off */
#define RG_MATMUL_ARGS(A, S, AT) \
  A(S, AT, i32, compute, FOUND, -1, "RG_BF16: factors are read in bf16; -1: as they are") \
  A(S, AT, i32, dtype, FOUND, -1, "of the result, where compute says so")
/* clang-format on */
RG_ARGS_STRUCT(rg_matmul_args, RG_MATMUL_ARGS);

/* A matrix product in bf16 of factors of any float type, with the result in a type of its own: what
** is to be f32 is not rounded on the way. */
rg_status rg_matmul_bf16(const rg_tensor *x, const rg_tensor *y, int32_t dtype,
                         rg_tensor **out) RG_CHECK;

/* linear, linear_dropout, lowrank_linear */
/* clang-format off */
#define RG_LINEAR_ARGS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation")
#define RG_LINEAR_DROPOUT_ARGS(A, S, AT) \
  RG_LINEAR_ARGS(A, S, AT) \
  RG_DROPOUT_ARGS(A, S, AT)
/* clang-format on */
RG_ARGS_STRUCT(rg_linear_args, RG_LINEAR_DROPOUT_ARGS);

/* sketched_linear, sketched_linear_bits, sketched_linear_seed */
/* clang-format off */
#define RG_SKETCH_ARGS(A, S, AT) \
  A(S, AT, i32, n_terms, WHOLE, RG_REQUIRED, "pairs of products that are averaged") \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, f64, p, SHARE, 0, "dropout probability; 0 draws nothing")
/* clang-format on */
RG_ARGS_STRUCT(rg_sketch_args, RG_SKETCH_ARGS);

/*
** The type of the result: what autocast asks for, else the type the inputs meet at.
**
** The kernels convert while they pack, so that no converted copy of x or of a weight crosses
** memory; call->compute stays -1.
*/
rg_status rg_product_dtype(const rg_call *call, int32_t *out) RG_CHECK;

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
