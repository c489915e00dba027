/* SPDX-License-Identifier: MIT */
/*
** Sketched linear on the CPU: two products, with the scale, the bias, the activation and dropout in
** the epilogue of the second.  With one bit a sign the factors are seen as two pieces each, S1
** beside U2 and U1 above S2, and the signs are expanded in the tiles that are being multiplied.
**
** From a seed the bits are made again at each call and each replay, in scratch: a Philox block
** makes 128 of them, which each row of x then multiplies with.  So a layer holds none, a plan
** follows what is written into the seed, and nothing has to be found out of date.
*/
#include <math.h>

#include "cpu/chain.h"
#include "cpu/cpu.h"
#include "cpu/signs.h"
#include "op/draw.h"
#include "op/product.h"
#include "op/signs.h"

static rg_epilogue epilogue_of(const rg_call *call, const rg_tensor *bias)
{
  const rg_sketch_args *args = call->args;

  return (rg_epilogue){ .bias = bias,
                        .scale = 1.0 / (2.0 * args->n_terms),
                        .p = args->p,
                        .draw = call->draw,
                        .act = args->act };
}

rg_status rg_cpu_sketched_linear(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  rg_chain chain = { .n = 2 };
  int64_t half;

  rg_cpu_keep_draw(call, 2, out);
  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  chain.b[0] = rg_weight_of(call->in[1], false);
  chain.b[1] = rg_weight_of(call->in[2], false);
  half = chain.b[0].n / 2;
  chain.free[0] = rg_weight_part(&chain.b[0], 0, chain.b[0].k, 0, half);
  chain.fixed[0] = rg_weight_part(&chain.b[0], 0, chain.b[0].k, half, half);
  chain.fixed[1] = rg_weight_part(&chain.b[1], 0, half, 0, chain.b[1].n);
  chain.free[1] = rg_weight_part(&chain.b[1], half, half, 0, chain.b[1].n);
  chain.epilogue = epilogue_of(call, call->n_in > 3 ? call->in[3] : NULL);
  return rg_chain_run(&chain, call, out, frame);
}

/* -- One bit a sign ---------------------------------------------------------------------------- */

static rg_piece signs_of(const rg_tensor *bits, double sign)
{
  return (rg_piece){ .data = bits->_data,
                     .storage = bits->_storage,
                     .dtype = RG_U8,
                     .row = bits->_stride[0],
                     .col = bits->_stride[1],
                     .sign = sign };
}

/* What a 1 stands for. */
static double sign_of(const rg_call *call)
{
  const rg_sketch_args *args = call->args;
  int64_t half = call->in[1]->_shape[1];

  return half > 0 ? 1.0 / sqrt((double)(half / args->n_terms)) : 1.0;
}

static rg_chain chain_of(const rg_call *call, const rg_tensor *s2, const rg_tensor *bias,
                         rg_piece u1, rg_piece u2)
{
  rg_chain chain = { .n = 2 };
  int64_t half = call->in[1]->_shape[1];

  chain.free[0] = chain.b[0] = rg_weight_of(call->in[1], false);
  chain.free[1] = chain.b[1] = rg_weight_of(s2, false);
  /* packed copies would take what the bits save: S1 and S2 are packed as they are used */
  chain.free[0].piece[0].keeps = chain.free[1].piece[0].keeps = false;
  chain.b[0].n = 2 * half;
  chain.b[0].piece[1] = u2;
  chain.b[1].k = 2 * half;
  chain.b[1].piece[1] = chain.b[1].piece[0];
  chain.b[1].piece[0] = u1;
  chain.fixed[0] = chain.free[0];
  chain.fixed[0].piece[0] = u2;
  chain.fixed[1] = chain.free[1];
  chain.fixed[1].piece[0] = u1;
  chain.epilogue = epilogue_of(call, bias);
  return chain;
}

rg_status rg_cpu_sketched_linear_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  double sign = sign_of(call);
  rg_chain chain;

  rg_cpu_keep_draw(call, 2, out);
  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  chain = chain_of(call, call->in[4], call->n_in > 5 ? call->in[5] : NULL,
                   signs_of(call->in[2], sign), signs_of(call->in[3], sign));
  return rg_chain_run(&chain, call, out, frame);
}

rg_status rg_cpu_sketched_linear_seed(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  int64_t n_in = call->in[1]->_shape[0];
  int64_t half = call->in[1]->_shape[1];
  int64_t n_out = call->in[3]->_shape[1];
  uint64_t seed = rg_seed_in(call->in[2]);
  uint8_t *u1 = frame->scratch;
  uint8_t *u2 = u1 + rg_sign_bytes(half, n_out);
  rg_piece bits = { .dtype = RG_U8, .col = 1, .sign = sign_of(call) };
  rg_piece first = bits, second = bits;
  rg_chain chain;

  rg_cpu_keep_draw(call, 2, out);
  RG_TRY(rg_make_sign_bits(seed, RG_DRAW_U1, half, n_out, u1));
  RG_TRY(rg_make_sign_bits(seed, RG_DRAW_U2, n_in, half, u2));
  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  first.data = u1;
  first.row = (n_out + 7) / 8;
  second.data = u2;
  second.row = (half + 7) / 8;
  chain = chain_of(call, call->in[3], call->n_in > 4 ? call->in[4] : NULL, first, second);
  return rg_chain_run(&chain, call, out, frame);
}
