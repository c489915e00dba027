/* SPDX-License-Identifier: MIT */
/*
** Graphs of a convolution and of its two gradients.  Forward is
**
**   y = act(conv(x, w) + b),
**
** with the sum in f32 between the parts, so that it is rounded once.
*/
#include "gpu/dnn/graph.h"

#if RG_HAS_DNN

bool rg_dnn_fuses(int32_t act)
{
  return act == RG_ACT_NONE || act == RG_ACT_RELU || act == RG_ACT_GELU;
}

void rg_dnn_conv_build(rg_dnn_graph *g, const void *what)
{
  const rg_dnn_conv *c = (const rg_dnn_conv *)what;
  rg_dnn_desc x = rg_dnn_given(g, RG_DNN_X, c->x);
  rg_dnn_desc w = rg_dnn_given(g, RG_DNN_W, c->w);
  rg_dnn_desc y = rg_dnn_given(g, RG_DNN_Y, c->y);
  bool acts = c->kind == RG_DNN_FORWARD && c->act != RG_ACT_NONE;
  bool adds = c->kind == RG_DNN_FORWARD && c->bias != 0;
  rg_dnn_layout sum = c->y;

  sum.type = CUDNN_DATA_FLOAT;
  sum.align = 16;
  rg_dnn_desc from = acts || adds ? rg_dnn_between(g, sum) : y;

  rg_dnn_convolve(g, c->kind, c->o, x, w, from);
  if (adds) {
    rg_dnn_desc b = rg_dnn_given(g, RG_DNN_B, c->b);

    from = rg_dnn_point(g, CUDNN_POINTWISE_ADD, from, b, acts ? rg_dnn_between(g, sum) : y);
  }
  if (acts) {
    (void)rg_dnn_point(g,
                       c->act == RG_ACT_RELU ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_GELU_FWD,
                       from, NULL, y);
  }
}

#endif
