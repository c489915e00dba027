/* SPDX-License-Identifier: MIT */
/*
** Weights as products of smaller matrices: what the parameters of low-rank and sketched linear
** layers are made of.  The layers themselves are rg_lowrank_linear and rg_sketched_linear
** (ridge/op.h); who holds the parameters is not said here.
*/
#ifndef RIDGE_FACTOR_H
#define RIDGE_FACTOR_H

#include "ridge/op.h"

/*
** The best factors of rank k of a weight: W = U diag(s) V' cut after k values is nearest in the
** Frobenius norm (Eckart, Young 1936).  A = V sqrt(s) and B = sqrt(s) U', so that both factors are
** of one size and train at one rate.
**
** weight   [n_out x n_in], float
** rank     1 .. min(n_in, n_out)
** a, b     new tensors [n_in x rank] and [rank x n_out], of the weight's element type
** RG_ESHAPE, RG_EDTYPE, RG_EARG; what rg_svd answers.
*/
RG_API rg_status rg_lowrank_factors(const rg_tensor *weight, int64_t rank, rg_tensor **a,
                                    rg_tensor **b) RG_CHECK;

/* How a sketched layer keeps its fixed signs: as numbers (stored), one bit each (bits), expanded in
** tiles as they are used, or not at all (seed): made again from a seed where they are needed.  One
** seed gives the same signs in each form.  AUTO is STORED, the faster one where it was measured
** (results/). */
enum { RG_SIGNS_AUTO, RG_SIGNS_STORED, RG_SIGNS_BITS, RG_SIGNS_SEED, RG_SIGNS_COUNT };

enum { RG_SKETCH_PARTS = 4 };

/*
** The sketch of a weight (Panther's SKLinear, github.com/FahdSeddik/panther), T = num_terms, R =
** low_rank: fixed signs U1 and U2 of +-1/sqrt(R), S1 = W U1' and S2 = U2' W.
**
** Its effective weight (rg_sketch_weight) is an unbiased estimate of the weight with the relative
** error (Frobenius) sqrt(((n_out-1)/R + (n_in-1)/R) / (4T)): above 1 wherever the sketch stores
** less than a square dense layer (docs/why/definitions.md 1.1).
**
** weight   [n_out x n_in], float
** num_terms
**          T, at least 1
** low_rank R, at least 1
** form     RG_SIGNS_...
** seed     of the signs; the default stream is not touched
** parts    new tensors in f32, what the operations take; NULL for the rest.  Stored: left
**          [n_in x 2TR] = [S1|U2] and right [2TR x n_out] = [U1;S2].  Bits: S1 [n_in x TR], U1 as
**          u8 [TR x ceil(n_out/8)], U2 as u8 [n_in x ceil(TR/8)], S2 [TR x n_out].  Seed: S1, the
**          seed as i64 [1] (rg_sign_bits, matrices 1 and 2), S2
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_sketch(const rg_tensor *weight, int64_t num_terms, int64_t low_rank,
                           int32_t form, uint64_t seed, rg_tensor *parts[RG_SKETCH_PARTS]) RG_CHECK;

/*
** The matrix that a sketched layer multiplies by: (1/(2T) sum_t [S1 U1 + U2 S2])'.
**
** parts    as rg_sketch makes them
** num_terms, low_rank, form
**          what they were made with; form: not RG_SIGNS_AUTO
** out      new tensor [n_out x n_in]
** RG_EARG, RG_ESHAPE.
*/
RG_API rg_status rg_sketch_weight(rg_tensor *const parts[RG_SKETCH_PARTS], int64_t num_terms,
                                  int64_t low_rank, int32_t form, rg_tensor **out) RG_CHECK;

/* k = n_in n_out / (n_in + n_out): a sketched layer stores and computes less than the dense one
** where 2 T R < k. */
RG_API double rg_sklinear_break_even(int64_t n_in, int64_t n_out);

/*
** Round the sizes of a sketched layer up to a multiple, as tensor cores want it; a size that would
** grow to more than 1.2 times itself stays, the rank is always rounded (document 002,
** optimize_for_tensor_cores).
**
** multiple at least 1; 8 for 16-bit floats, 16 for int8 (and for Panther's own kernels)
** out      n_in, n_out, low_rank
** RG_EARG.
*/
RG_API rg_status rg_round_for_tensor_cores(int64_t n_in, int64_t n_out, int64_t low_rank,
                                           int64_t multiple, int64_t out[3]) RG_CHECK;

#endif
