/* SPDX-License-Identifier: MIT */
/*
** Products of small blocks, for kernels that keep what lies between two products in the caches: in
** f32, or in bf16 with sums in f32, on the tile registers of AMX where it is.
**
** Left factors are rows, right factors packed panels of 32 columns; both are made here from
** matrices of any type and strides.  Results are f32.
*/
#ifndef RIDGE_CPU_BLOCK_H
#define RIDGE_CPU_BLOCK_H

#include "cpu/gemm.h"

/* A strided matrix. */
typedef struct rg_matrix {
  void *data;
  int64_t row; /* distances in elements */
  int64_t col;
  int32_t dtype;
} rg_matrix;

/* The matrix of the last two axes of x at position i of the others, row-major. */
rg_matrix rg_matrix_of(const rg_tensor *x, int64_t i);
rg_matrix rg_matrix_transposed(rg_matrix x);
rg_matrix rg_matrix_from(rg_matrix x, int64_t row);

/* Store n numbers in row i. */
void rg_matrix_store(rg_matrix x, int64_t i, const float *from, int64_t n);

/* How the products of a type are done. */
typedef struct rg_block_form {
  int32_t format; /* RG_PACK_... */
  bool amx;       /* bf16 on tile registers */
  int64_t size;   /* bytes of an element of a factor */
} rg_block_form;

rg_block_form rg_block_form_of(int32_t dtype);

/* k as factors have it: whole steps for bf16.  Rows likewise come in blocks of 32 there. */
int64_t rg_block_depth(rg_block_form f, int64_t k);

/* Rows 0 .. rows-1 of x, k numbers each, side by side rg_block_depth(k) apart; what is padded,
** rows up to a multiple of 32 included, is 0. */
void rg_block_rows(rg_block_form f, rg_matrix x, int64_t rows, int64_t k, void *to);

/* Rows of f32, ldx apart, as a left factor: with k a multiple of 32, without a copy where possible.
 */
const void *rg_block_left(rg_block_form f, const float *x, int64_t rows, int64_t k, void *room);

/* x, [k x n], as panels one after the other. */
void rg_block_pack(rg_block_form f, rg_matrix x, int64_t k, int64_t n, void *to);

/* c, [m x n rounded up to 32], (+)= a b; for bf16 m is rounded up as well. */
void rg_block_mul(rg_block_form f, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                  const void *b, float *c, int64_t ldc, bool add);

/* c += a' b in f32, a, [k x m], read in place. */
void rg_block_mul_across(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                         const float *b, float *c, int64_t ldc);

/* Around the products of a thread. */
void rg_block_begin(rg_block_form f);
void rg_block_end(rg_block_form f);

#endif
