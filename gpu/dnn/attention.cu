/* SPDX-License-Identifier: MIT */
/*
** Graphs of attention and of its gradients.  cuDNN has no single operation that does all of it in
** the versions we take (no causal mask before 9.21, no plan for the gradient), but its engines know
** the pattern when the operations come in the order of NVIDIA's cudnn-frontend, whose nodes
** CompositeSDPANode and CompositeSDPABackwardNode (version 1.15) were read for it.
**
** With s = scale q k' (and -inf where a query does not see a key), the forward graph is
**
**   m = max s    z = sum exp(s - m)    o = (exp(s - m) / z) v    lse = m + log z
**
** and the one of the gradients, given lse, and p = exp(s - lse),
**
**   delta = sum(d_o o)    dv = p' d_o    ds = scale p (d_o v' - delta)    dk = ds' q    dq = ds k
**
** Queries see keys 0 .. i where it is causal, as in ridge's definition (the upper left corner).
** All layouts are [batch x heads x rows x columns].
*/
#include <math.h>

#include "gpu/dnn/graph.h"

#if RG_HAS_DNN

/* Scores of one call, and what is one number for each of their rows. */
struct sizes {
  rg_dnn_layout scores, rows;
};

static sizes sizes_of(const rg_dnn_sdpa *a)
{
  const int64_t *q = a->q.shape;

  return sizes{ rg_dnn_dense(CUDNN_DATA_FLOAT, q[0], q[1], q[2], a->k.shape[2]),
                rg_dnn_dense(CUDNN_DATA_FLOAT, q[0], q[1], q[2], 1) };
}

static rg_dnn_layout typed(rg_dnn_layout x, cudnnDataType_t type)
{
  x.type = type;
  return x;
}

/* -inf where key j > query i. */
static rg_dnn_desc see(rg_dnn_graph *g, const sizes &z, rg_dnn_desc s)
{
  const rg_dnn_layout number = typed(z.scores, CUDNN_DATA_INT32);
  rg_dnn_desc i = rg_dnn_index(g, 2, s, rg_dnn_between(g, number));
  rg_dnn_desc j = rg_dnn_index(g, 3, s, rg_dnn_between(g, number));
  rg_dnn_desc sees = rg_dnn_compare(g, CUDNN_POINTWISE_CMP_GE, i, j,
                                    rg_dnn_between(g, typed(z.scores, CUDNN_DATA_BOOLEAN)));

  return rg_dnn_select(g, sees, s, rg_dnn_value(g, -INFINITY), rg_dnn_between(g, z.scores));
}

void rg_dnn_sdpa_build(rg_dnn_graph *g, const void *what)
{
  const rg_dnn_sdpa *a = (const rg_dnn_sdpa *)what;
  const sizes z = sizes_of(a);
  const cudnnDataType_t type = (cudnnDataType_t)a->q.type;
  rg_dnn_desc q = rg_dnn_given(g, RG_DNN_Q, a->q);
  rg_dnn_desc k = rg_dnn_given(g, RG_DNN_K, rg_dnn_transposed(a->k));
  rg_dnn_desc v = rg_dnn_given(g, RG_DNN_V, a->v);
  rg_dnn_desc o = rg_dnn_given(g, RG_DNN_O, a->o);
  rg_dnn_desc s = rg_dnn_matmul(g, q, k, rg_dnn_between(g, z.scores));

  s = rg_dnn_point(g, CUDNN_POINTWISE_MUL, s, rg_dnn_value(g, a->scale),
                   rg_dnn_between(g, z.scores));
  if (a->causal != 0) {
    s = see(g, z, s);
  }
  rg_dnn_desc most = rg_dnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, rg_dnn_between(g, z.rows));
  rg_dnn_desc e = rg_dnn_point(g, CUDNN_POINTWISE_SUB, s, most, rg_dnn_between(g, z.scores));

  e = rg_dnn_point(g, CUDNN_POINTWISE_EXP, e, NULL, rg_dnn_between(g, z.scores));
  rg_dnn_desc total = rg_dnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, rg_dnn_between(g, z.rows));

  rg_dnn_desc log = rg_dnn_point(g, CUDNN_POINTWISE_LOG, total, NULL, rg_dnn_between(g, z.rows));

  (void)rg_dnn_point(g, CUDNN_POINTWISE_ADD, most, log,
                     a->lse.shape[0] != 0 ? rg_dnn_given(g, RG_DNN_LSE, a->lse)
                                          : rg_dnn_between(g, z.rows));
  rg_dnn_desc p =
      rg_dnn_point(g, CUDNN_POINTWISE_DIV, e, total, rg_dnn_between(g, typed(z.scores, type)));

  (void)rg_dnn_matmul(g, p, v, o);
}

/* The last two axes of scores exchanged, in the type of the products. */
static rg_dnn_desc across(rg_dnn_graph *g, const sizes &z, cudnnDataType_t type, rg_dnn_desc x)
{
  return rg_dnn_reshape(g, x, rg_dnn_between(g, rg_dnn_transposed(typed(z.scores, type))));
}

/*
** The gradient of q is a sum over blocks of keys, whose order is not fixed where they add to the
** same memory in f32.  Where the same bits are asked for, ds lies in the workspace instead and the
** product is made afterwards: that is what makes cuDNN take its other way.  No note on an engine
** tells the two apart (9.19), so the graph has to.
*/
void rg_dnn_sdpa_back_build(rg_dnn_graph *g, const void *what)
{
  const rg_dnn_sdpa *a = (const rg_dnn_sdpa *)what;
  const sizes z = sizes_of(a);
  const cudnnDataType_t type = (cudnnDataType_t)a->q.type;
  const int64_t *size = a->q.shape;
  rg_dnn_desc q = rg_dnn_given(g, RG_DNN_Q, a->q);
  rg_dnn_desc k = rg_dnn_given(g, RG_DNN_K, rg_dnn_transposed(a->k));
  rg_dnn_desc v = rg_dnn_given(g, RG_DNN_V, rg_dnn_transposed(a->v));
  rg_dnn_desc o = rg_dnn_given(g, RG_DNN_O, a->o);
  rg_dnn_desc lse = rg_dnn_given(g, RG_DNN_LSE, a->lse);
  rg_dnn_desc d_o = rg_dnn_given(g, RG_DNN_DO, a->d_o);
  rg_dnn_desc dq = rg_dnn_given(g, RG_DNN_DQ, a->dq);
  rg_dnn_desc dk = rg_dnn_given(g, RG_DNN_DK, a->dk);
  rg_dnn_desc dv = rg_dnn_given(g, RG_DNN_DV, a->dv);
  rg_dnn_desc scale = rg_dnn_value(g, a->scale);
  rg_dnn_layout values = rg_dnn_dense(CUDNN_DATA_FLOAT, size[0], size[1], size[2], a->v.shape[3]);

  rg_dnn_desc delta = rg_dnn_point(g, CUDNN_POINTWISE_MUL, d_o, o, rg_dnn_between(g, values));

  delta = rg_dnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, delta, rg_dnn_between(g, z.rows));
  delta = rg_dnn_point(g, CUDNN_POINTWISE_MUL, delta, rg_dnn_value(g, 1), rg_dnn_inner(g, z.rows));

  rg_dnn_desc p = rg_dnn_matmul(g, q, k, rg_dnn_between(g, z.scores));

  p = rg_dnn_point(g, CUDNN_POINTWISE_MUL, p, scale, rg_dnn_between(g, z.scores));
  p = rg_dnn_point(g, CUDNN_POINTWISE_SUB, p, lse, rg_dnn_between(g, z.scores));
  if (a->causal != 0) {
    p = see(g, z, p);
  }
  p = rg_dnn_point(g, CUDNN_POINTWISE_EXP, p, NULL, rg_dnn_between(g, z.scores));
  (void)rg_dnn_matmul(g, across(g, z, type, p), d_o, dv);

  rg_dnn_desc ds = rg_dnn_matmul(g, d_o, v, rg_dnn_between(g, z.scores));

  ds = rg_dnn_point(g, CUDNN_POINTWISE_SUB, ds, delta, rg_dnn_between(g, z.scores));
  ds = rg_dnn_point(g, CUDNN_POINTWISE_MUL, ds, p, rg_dnn_between(g, z.scores));
  ds = rg_dnn_point(g, CUDNN_POINTWISE_MUL, ds, scale, rg_dnn_between(g, typed(z.scores, type)));
  (void)rg_dnn_matmul(g, across(g, z, type, ds), q, dk);

  rg_dnn_desc keys = rg_dnn_reshape(g, k, rg_dnn_between(g, a->k));

  if (a->deterministic != 0) {
    (void)rg_dnn_matmul(g, ds, keys, dq);
  } else {
    rg_dnn_desc sum =
        rg_dnn_inner(g, rg_dnn_dense(CUDNN_DATA_FLOAT, size[0], size[1], size[2], size[3]));

    sum = rg_dnn_matmul(g, ds, keys, sum);
    (void)rg_dnn_point(g, CUDNN_POINTWISE_IDENTITY, sum, NULL, dq);
  }
}

#endif
