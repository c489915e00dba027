/* SPDX-License-Identifier: MIT */
/*
** Operations.  Each is one record (core/op/) and goes through one dispatcher (core/op/run.c).
**
** Common to all: inputs on one device; shapes are those of NumPy broadcasting where two tensors
** meet; mixed element types are promoted (bool < u8, i8 < i32 < i64 < f16, bf16 < f32 < f64; f16
** with bf16 gives f32); f8e4m3 and f8e5m2 are only stored: but for copies, conversions, fills,
** joining and taking, every operation answers RG_EDTYPE.  A function whose name ends in _ writes
** into its first tensor.  Beyond those named, every operation can answer RG_ENOMEM, RG_EDEVICE,
** RG_ERELEASED and RG_EINTR.
*/
#ifndef RIDGE_OP_H
#define RIDGE_OP_H

#include "ridge/element.h"
#include "ridge/schema.h"
#include "ridge/tensor.h"

/* -- Making, copying, converting ---------------------------------------------- */

/* Set every element of x to value, converted to its type. */
RG_API rg_status rg_fill_(rg_tensor *x, double value) RG_CHECK;

/* x[i] = start + i * step, in row-major order. */
RG_API rg_status rg_arange_(rg_tensor *x, double start, double step) RG_CHECK;

/* Copy y, broadcast to x's shape and converted to its type, into x, from any device.  RG_ESHAPE. */
RG_API rg_status rg_copy_(rg_tensor *x, const rg_tensor *y) RG_CHECK;

/* A contiguous copy.  x: any; out: new tensor. */
RG_API rg_status rg_clone(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/*
** A tensor on another device; x itself (a new reference) where it is there already.
**
** device   RG_CPU ..., opened where it was not; RG_PINNED: a tensor of the CPU's in pinned memory,
**          which may arrive later: reading it waits
** out      contiguous; its incoming gradient goes back to x's device
** RG_EDEVICE; RG_ECAPTURE: a plan stays on one device.
*/
RG_API rg_status rg_to_device(const rg_tensor *x, int32_t device, rg_tensor **out) RG_CHECK;

/*
** The same of a tensor that will be asked for again: its copy on the device is kept with it until
** it is written to, and only then copied again.  Who writes to what he was given spoils the copy
** for those who have it, and the next call makes another.
**
** x        a part of something larger is copied each time
** device   as above
** out      a tensor with a gradient of its own, which goes back to x's device
** RG_EDEVICE; RG_ECAPTURE: a plan stays on one device.
*/
RG_API rg_status rg_mirror(const rg_tensor *x, int32_t device, rg_tensor **out) RG_CHECK;

/* out: x itself (a new reference) if it is contiguous, else a copy. */
RG_API rg_status rg_contiguous(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/*
** Convert to another element type.
**
** x        any
** dtype    RG_F32 ...; floats become integers by truncation, out of range by saturation, nan by 0;
**          floats become narrower ones by rounding to nearest even, once; anything but 0 becomes
**          true; beyond the largest number is infinity, and nan in f8e4m3
** out      new tensor, always a copy
** RG_EDTYPE.
*/
RG_API rg_status rg_cast(const rg_tensor *x, int32_t dtype, rg_tensor **out) RG_CHECK;

/*
** Join tensors along an axis.
**
** xs       n tensors, equal but for the size of the axis
** n        at least 1
** axis     -ndim .. ndim-1
** out      new tensor, of the promoted type; f8e4m3 and f8e5m2 join with their own type only
** RG_ESHAPE, RG_EAXIS, RG_EDTYPE, RG_EARG for n = 0.
*/
RG_API rg_status rg_concat(const rg_tensor *const *xs, int32_t n, int32_t axis,
                           rg_tensor **out) RG_CHECK;

/*
** Rows of a table, gathered by index.
**
** x        [rows x ...], any type
** index    [...], an integer type: numbers from 0
** out      new tensor [... of index x ... of a row]
** RG_ESHAPE, RG_EDTYPE, RG_EARG (a number that is no row; a GPU says so when it is waited for).
*/
RG_API rg_status rg_take(const rg_tensor *x, const rg_tensor *index, rg_tensor **out) RG_CHECK;

/*
** The gradient of rg_take: rows added up at their numbers.
**
** dy       [... of index x ... of a row], float
** index    as there
** rows     of the table
** out      new tensor [rows x ...]
** RG_ESHAPE, RG_EDTYPE, RG_EARG (a number that is no row; a GPU says so when it is waited for).
*/
RG_API rg_status rg_take_back(const rg_tensor *dy, const rg_tensor *index, int64_t rows,
                              rg_tensor **out) RG_CHECK;

/* -- Random numbers ------------------------------------------------------------ */

/*
** Fill x with draws; element i (row-major) uses number i after the stream's offset, which moves on;
** of signs, bit i % 32 of number i / 32.
**
** x         float
** lo, hi    uniform in [lo, hi)
** mean, std normal (Box-Muller on pairs)
** scale     rg_signs_: +scale or -scale, each with probability 1/2
** generator NULL: the default stream
** RG_EDTYPE, RG_EARG for lo > hi or std < 0.
*/
RG_API rg_status rg_uniform_(rg_tensor *x, double lo, double hi, rg_generator *generator) RG_CHECK;
RG_API rg_status rg_normal_(rg_tensor *x, double mean, double std,
                            rg_generator *generator) RG_CHECK;
RG_API rg_status rg_signs_(rg_tensor *x, double scale, rg_generator *generator) RG_CHECK;

/* Integers uniform in [lo, hi).  x: i64, i32, i8, u8; lo < hi; generator: as above. */
RG_API rg_status rg_randint_(rg_tensor *x, int64_t lo, int64_t hi,
                             rg_generator *generator) RG_CHECK;

/*
** Set elements to 0 with probability p and scale the others by 1/(1-p).
**
** x         float
** p         0 <= p < 1
** generator NULL: the default stream
** out       new tensor
** RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_dropout(const rg_tensor *x, double p, rg_generator *generator,
                            rg_tensor **out) RG_CHECK;

/* The same, written into x. x, p, generator: as above. */
RG_API rg_status rg_dropout_(rg_tensor *x, double p, rg_generator *generator) RG_CHECK;

/*
** The gradient of dropout: the same elements set to 0, the others scaled.
**
** dy       float
** draw     i64 [2]: seed and offset of the numbers that dropout took
** p, out   as above
** RG_EDTYPE, RG_ESHAPE, RG_EARG.
*/
RG_API rg_status rg_dropout_back(const rg_tensor *dy, const rg_tensor *draw, double p,
                                 rg_tensor **out) RG_CHECK;

/* -- Reductions ---------------------------------------------------------------- */

/*
** Sum, mean, product, maximum, minimum over axes.
**
** x        any; sums of integers and bool are i64, means of them f32; float sums run in f32 (f64
**          for f64) by blocks, so that the error grows with the logarithm of the count
** axes     n axes, each -ndim .. ndim-1, none twice; n = 0 means all
** n        how many
** keep     1: reduced axes stay with size 1
** out      new tensor
** RG_EAXIS; RG_EARG: the mean, maximum or minimum of nothing; nan wins in maximum and minimum.
*/
RG_API rg_status rg_sum(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep,
                        rg_tensor **out) RG_CHECK;
RG_API rg_status rg_mean(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep,
                         rg_tensor **out) RG_CHECK;
RG_API rg_status rg_prod(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep,
                         rg_tensor **out) RG_CHECK;
RG_API rg_status rg_max(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep,
                        rg_tensor **out) RG_CHECK;
RG_API rg_status rg_min(const rg_tensor *x, const int32_t *axes, int32_t n, int32_t keep,
                        rg_tensor **out) RG_CHECK;

/*
** The p-norm over axes: (sum |x|^p)^(1/p); p = infinity is the largest |x|.
**
** x        float
** p        above 0
** axes, n, keep, out: as for rg_sum
** RG_EDTYPE, RG_EAXIS, RG_EARG.
*/
RG_API rg_status rg_norm(const rg_tensor *x, double p, const int32_t *axes, int32_t n, int32_t keep,
                         rg_tensor **out) RG_CHECK;

/*
** Position (0-based, i64) of the first largest or smallest element along an axis; nan wins.
**
** x        any
** axis     -ndim .. ndim-1
** keep     1: the axis stays with size 1
** out      new tensor, i64
** RG_EAXIS, RG_EARG for an axis of size 0.
*/
RG_API rg_status rg_argmax(const rg_tensor *x, int32_t axis, int32_t keep,
                           rg_tensor **out) RG_CHECK;
RG_API rg_status rg_argmin(const rg_tensor *x, int32_t axis, int32_t keep,
                           rg_tensor **out) RG_CHECK;

/*
** Softmax along one axis: y[i] = exp(x[i] - m) / sum_j exp(x[j] - m), m = max_j x[j].
**
** x        float; sums are kept in f32 (f64 for f64)
** axis     -ndim .. ndim-1
** out      new tensor with the shape and type of x
** RG_EDTYPE, RG_EAXIS.
*/
RG_API rg_status rg_softmax(const rg_tensor *x, int32_t axis, rg_tensor **out) RG_CHECK;

/*
** The gradient of rg_softmax.
**
** dy, y    the incoming gradient of its result, and the result; float, of one shape
** axis     as there
** out      new tensor of the type both meet at
** RG_ESHAPE, RG_EDTYPE, RG_EAXIS.
*/
RG_API rg_status rg_softmax_back(const rg_tensor *dy, const rg_tensor *y, int32_t axis,
                                 rg_tensor **out) RG_CHECK;

/* -- Products ------------------------------------------------------------------- */

/* The unary operations that may follow a product in its epilogue: the one list of activations.  A
** slope (core/op/formulas.h) belongs to each. */
/* clang-format off */
#define RG_ACT_LIST(A) \
  A(RELU, relu) A(GELU, gelu) A(SILU, silu) A(TANH, tanh) A(SIGMOID, sigmoid) \
  A(RELU6, relu6)
#define RG_ACT_ID(NAME, name) RG_ACT_##NAME,
enum { RG_ACT_NONE, RG_ACT_LIST(RG_ACT_ID) RG_ACT_COUNT };
/* clang-format on */

/* act: RG_ACT_...; its name: "none", "relu"; NULL for a number that is none. */
RG_API const char *rg_act_name(int32_t act);

/*
** The derivative of an activation times the incoming gradient.
**
** dy       float
** x        the result of the activation or, for RG_ACT_GELU and RG_ACT_SILU, what went into it;
**          float, of the shape of dy
** act      RG_ACT_..., not RG_ACT_NONE
** out      new tensor of the type both meet at
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_act_back(const rg_tensor *dy, const rg_tensor *x, int32_t act,
                             rg_tensor **out) RG_CHECK;

/*
** Matrix product, batched.
**
** x        [... x M x K], or [K] for one row
** y        [... x K x N], or [K] for one column; the batch axes broadcast; any strides
** out      [... x M x N], less the axis of a vector; f16 and bf16 accumulate in f32
** RG_ESHAPE, RG_EDTYPE (bool).
*/
RG_API rg_status rg_matmul(const rg_tensor *x, const rg_tensor *y, rg_tensor **out) RG_CHECK;

/*
** y = act(x W' + b).
**
** x        [... x n_in], float
** w        [n_out x n_in]; packed once per version where it is a weight (rg_tensor_set_param)
** b        [n_out] or NULL
** act      RG_ACT_...
** out      [... x n_out]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_linear(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b, int32_t act,
                           rg_tensor **out) RG_CHECK;

/*
** y = dropout(act(x W' + b)): bias, activation and dropout in one pass over the result, while it is
** in L1.  The mask is rg_dropout's on the same tensor.
**
** x, w, b, act
**          as in rg_linear
** p        probability of 0, 0 <= p < 1; the rest is scaled by 1 / (1 - p)
** generator
**          NULL: the default stream
** out      [... x n_out]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_linear_dropout(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b,
                                   int32_t act, double p, rg_generator *generator,
                                   rg_tensor **out) RG_CHECK;

/*
** y = act((x A) B + b): a dense layer of rank k.
**
** x        [... x n_in], float
** a        [n_in x k]
** b        [k x n_out]
** bias     [n_out] or NULL
** act      RG_ACT_...
** out      [... x n_out]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_lowrank_linear(const rg_tensor *x, const rg_tensor *a, const rg_tensor *b,
                                   const rg_tensor *bias, int32_t act, rg_tensor **out) RG_CHECK;

/*
** Sketched linear (Panther's SKLinear), two products over the concatenated terms:
**
**   y = dropout(act(1/(2T) (x [S1|U2]) [U1;S2] + bias))
**
** x         [... x n_in], float
** left      [n_in x 2TR]: S1 of every term side by side, then U2
** right     [2TR x n_out]: U1 of every term one below the other, then S2
** bias      [n_out] or NULL
** n_terms   T
** act       RG_ACT_...
** p         dropout probability, 0 <= p < 1; 0 draws nothing
** generator NULL: the default stream
** out       [... x n_out]
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_sketched_linear(const rg_tensor *x, const rg_tensor *left,
                                    const rg_tensor *right, const rg_tensor *bias, int32_t n_terms,
                                    int32_t act, double p, rg_generator *generator,
                                    rg_tensor **out) RG_CHECK;

/*
** The same with the fixed signs kept as one bit each and expanded in tiles as they are used.
**
** s1        [n_in x TR], s2 [TR x n_out]
** u1_bits   u8 [TR x ceil(n_out / 8)]: bit j of a row is column j, 1 is +1/sqrt(R)
** u2_bits   u8 [n_in x ceil(TR / 8)], likewise
** n_terms   T; TR must be a multiple of it
** x, bias, act, p, generator, out: as above
*/
RG_API rg_status rg_sketched_linear_bits(const rg_tensor *x, const rg_tensor *s1,
                                         const rg_tensor *u1_bits, const rg_tensor *u2_bits,
                                         const rg_tensor *s2, const rg_tensor *bias,
                                         int32_t n_terms, int32_t act, double p,
                                         rg_generator *generator, rg_tensor **out) RG_CHECK;

/*
** The same with the fixed signs made from a seed where they are needed: U1 and U2 are what
** rg_sign_bits makes of matrices 1 and 2.
**
** s1        [n_in x TR], s2 [TR x n_out]
** seed      i64 [1]; it is read as the kernel runs, so that a plan follows what is written there
** n_terms   T; TR must be a multiple of it
** x, bias, act, p, generator, out: as above
*/
RG_API rg_status rg_sketched_linear_seed(const rg_tensor *x, const rg_tensor *s1,
                                         const rg_tensor *seed, const rg_tensor *s2,
                                         const rg_tensor *bias, int32_t n_terms, int32_t act,
                                         double p, rg_generator *generator,
                                         rg_tensor **out) RG_CHECK;

/* What a product of bytes can be told. */
/* clang-format off */
#define RG_SCALED_LINEAR_OPTIONS(A, S, AT) \
  A(S, AT, i32, act, ACT, RG_ACT_NONE, "activation") \
  A(S, AT, i32, dtype, DTYPE, RG_F32, "of the result: f32, bf16, f16, i8 or u8") \
  A(S, AT, i64, x_zero, WHOLE, 0, "the byte of x that stands for 0") \
  A(S, AT, i64, y_zero, WHOLE, 0, "that of a result of bytes")
/* clang-format on */
RG_ARGS_STRUCT(rg_scaled_linear_options, RG_SCALED_LINEAR_OPTIONS);

/*
** y = act(((x - x_zero) W') x_scale w_scale + b): factors of 8 bits with the scales that they stand
** for.
**
** Sums of bytes are exact (in i32) before they are scaled; those of 8-bit floats are in f32 or,
** where cublasLt multiplies such numbers as they are, in what tensor cores keep of a sum: on an
** H200 they were up to 2^-12.6 of the sum of magnitudes off (n_in 64, normally distributed),
** 2^-24.9 with vendor = 0 of rg_device_modes, which widens factors to bf16 and adds up in f32.  A
** scale that is nan makes nan of what it scales.  There is no gradient: one that flows into b or a
** scale is RG_ENOSUP when it goes back.
**
** Where the result is of bytes they are round(y (1 / y_scale)) + y_zero, ties to even, saturated,
** and y_zero for nan.  Floats without an x_scale are quantized inside the call, as the operation
** quantize_rows does it.  u8, zero points, a bias of i32, results of bytes and x of floats are the
** CPU's alone.
**
** x        [... x n_in], i8, u8, f8e4m3 or f8e5m2; or floats, without x_scale
** w        [n_out x n_in], i8 beside i8 (then n_in <= 131071, so that no sum can overflow), beside
**          u8 or with a zero point (n_in <= 65793), beside floats; else f8e4m3 or f8e5m2
** x_scale  f32: one number, or one for each row of x: [...], or [... x 1] as a reduction leaves it;
**          NULL for x of floats
** w_scale  f32: one number, or one for each row of w: [n_out] or [n_out x 1]
** b        [n_out], float; or i32, in units of x_scale w_scale, which is added to the sums; or NULL
** act      RG_ACT_...
** dtype    of the result: RG_F32, RG_BF16 or RG_F16; it is computed in f32 and rounded once
** y_scale  f32, one number, for a result of bytes; else NULL
** options  NULL: all zero, so f32
** out      [... x n_out]
** RG_ESHAPE, RG_EDTYPE; RG_EARG, for a bias with which a sum may leave i32 too.
*/
RG_API rg_status rg_scaled_linear(const rg_tensor *x, const rg_tensor *w, const rg_tensor *x_scale,
                                  const rg_tensor *w_scale, const rg_tensor *b, int32_t act,
                                  int32_t dtype, rg_tensor **out) RG_CHECK;
RG_API rg_status rg_scaled_linear_with(const rg_tensor *x, const rg_tensor *w,
                                       const rg_tensor *x_scale, const rg_tensor *w_scale,
                                       const rg_tensor *b, const rg_tensor *y_scale,
                                       const rg_scaled_linear_options *options,
                                       rg_tensor **out) RG_CHECK;

/*
** A matrix of random signs as bits, from a seed: each a pure function of seed, matrix, row and
** column (op/draw.h), and none a number that any stream of the seed comes to.
**
** seed     i64 [1], its 64 bits
** matrix   which one of the seed, 1 .. 2^31 - 1
** rows, cols  below 2^32
** out      new tensor, u8 [rows x ceil(cols / 8)]: bit j of a row is column j, those behind the
**          last column are 0
** RG_ESHAPE, RG_EDTYPE, RG_EARG.
*/
RG_API rg_status rg_sign_bits(const rg_tensor *seed, int32_t matrix, int64_t rows, int64_t cols,
                              rg_tensor **out) RG_CHECK;

/*
** Signs kept as bits as numbers: +sign for a bit that is set, -sign for another.
**
** bits     u8 [rows x ceil(cols / 8)]: bit j of a row is column j
** dtype    a float type
** out      new tensor [rows x cols]
** RG_ESHAPE, RG_EDTYPE.
*/
RG_API rg_status rg_expand_signs(const rg_tensor *bits, int64_t cols, double sign, int32_t dtype,
                                 rg_tensor **out) RG_CHECK;

/*
** Singular value decomposition x = U diag(s) V' of a matrix (LAPACK gesdd).
**
** x        [M x N], f32 or f64
** u        out: [M x k], k = min(M, N)
** s        out: [k], falling
** vt       out: [k x N]
** RG_ESHAPE, RG_EDTYPE, RG_EARG for nan or infinity in x, RG_ENOSUP without LAPACK.
*/
RG_API rg_status rg_svd(const rg_tensor *x, rg_tensor **u, rg_tensor **s, rg_tensor **vt) RG_CHECK;

/* -- Which operations there are --------------------------------------------------- */

/* 1: a device has a kernel for operation index; a device that was not opened has none. */
RG_API int32_t rg_op_runs_on(int32_t index, int32_t device);

/*
** Remember this thread's calls for gradients (ridge/grad.h), as at the start, or not.
**
** on       0 or 1
** Returns what was before.
*/
RG_API int32_t rg_grad_mode(int32_t on);

/*
** Let every operation on this thread fail with RG_ENAN that makes a nan or an infinity from finite
** inputs, forward or in the backward pass.
**
** on       0 or 1
** Returns what was before.
*/
RG_API int32_t rg_grad_anomaly(int32_t on);

/* 1 if all elements of x are finite, or it is of no float type. */
RG_API int32_t rg_is_finite(const rg_tensor *x);

/*
** Autocast on this thread: operations of class LOWER convert f32 inputs to dtype.  On a device the
** copy of a weight (rg_tensor_set_param) is kept with it, in half of its memory, until it is
** written to; it is let go by the next use, or with the weight.
**
** dtype    RG_BF16, RG_F16, or -1 for off
** Returns what was set before.
*/
RG_API int32_t rg_autocast_set(int32_t dtype);

/* What autocast is set to on this thread; -1: off. */
RG_API int32_t rg_autocast(void);

/*
** Which library or kernel the CPU uses for products.
**
** path     "auto", "onednn", "openblas" or "own"
** RG_EARG for another name.  The environment's RIDGE_GEMM sets it at start.  A plan goes on with
** the one that it was captured under.
*/
RG_API rg_status rg_set_gemm_path(const char *path) RG_CHECK;
RG_API const char *rg_gemm_path(void);

/* -- Names for profilers -------------------------------------------------------------- */

/*
** Name each call that this thread asks a device for after its operation (rg_device_named), for a
** profiler that is attached.  on: 0 ends it.  Returns what was set before; 0 at first.
*/
RG_API int32_t rg_call_names(int32_t on);

#endif
