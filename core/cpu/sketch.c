/* SPDX-License-Identifier: MIT */
/*
** Sketched linear on the CPU: two products, with the scale, the bias, the activation and dropout in
** the way out of the second.  With one bit a sign the factors are seen as two pieces each, S1
** beside U2 and U1 above S2, and the signs are expanded in the tiles that are being multiplied.
*/
#include <math.h>

#include "cpu/chain.h"
#include "cpu/cpu.h"
#include "op/product.h"

rg_kernel rg_cpu_sketched_linear;
rg_kernel rg_cpu_sketched_linear_bits;

static rg_end end_of(const rg_call *call, const rg_tensor *bias)
{
  const rg_sketch_args *args = call->args;

  return (rg_end){ .bias = bias,
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
  chain.end = end_of(call, call->n_in > 3 ? call->in[3] : NULL);
  return rg_chain_run(&chain, call, out, frame);
}

/* Signs [rows x n] of one bit each. */
static rg_piece signs_of(const rg_tensor *bits, double sign)
{
  return (rg_piece){ .data = bits->_data,
                     .storage = bits->_storage,
                     .dtype = RG_U8,
                     .row = bits->_stride[0],
                     .col = bits->_stride[1],
                     .sign = sign };
}

rg_status rg_cpu_sketched_linear_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_sketch_args *args = call->args;
  const rg_tensor *s1 = call->in[1];
  const rg_tensor *s2 = call->in[4];
  int64_t half = s1->_shape[1];
  double sign = half > 0 ? 1.0 / sqrt((double)(half / args->n_terms)) : 1.0;
  rg_chain chain = { .n = 2 };

  rg_cpu_keep_draw(call, 2, out);
  if (rg_chain_ready(frame)) {
    return rg_chain_again(call, frame);
  }
  chain.free[0] = chain.b[0] = rg_weight_of(s1, false);
  chain.free[1] = chain.b[1] = rg_weight_of(s2, false);
  /* packed copies would take what the bits save: S1 and S2 are packed as they are used */
  chain.free[0].piece[0].keeps = chain.free[1].piece[0].keeps = false;
  chain.b[0].n = 2 * half;
  chain.b[0].piece[1] = signs_of(call->in[3], sign);
  chain.b[1].k = 2 * half;
  chain.b[1].piece[1] = chain.b[1].piece[0];
  chain.b[1].piece[0] = signs_of(call->in[2], sign);
  chain.fixed[0] = chain.free[0];
  chain.fixed[0].piece[0] = chain.b[0].piece[1];
  chain.fixed[1] = chain.free[1];
  chain.fixed[1].piece[0] = chain.b[1].piece[0];
  chain.end = end_of(call, call->n_in > 5 ? call->in[5] : NULL);
  return rg_chain_run(&chain, call, out, frame);
}
