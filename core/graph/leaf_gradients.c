/* SPDX-License-Identifier: MIT */
/*
** The accumulated gradients that a recording made or read, with their leaves: a plan of it computes
** in those very tensors, whatever the leaves have for gradients by the time it runs.
*/
#include "graph/ir.h"
#include "ridge/grad.h"

/* Is some tensor that the graph hands out in the same memory? */
static bool is_made(const rg_graph *g, const rg_tensor *grad)
{
  for (int32_t i = 0; i < rg_ir_n_outputs(g); i++) {
    const rg_ir_output *o = rg_ir_output_at(g, i);

    if (o->into != NULL && !o->outside && rg_tensor_same_storage(o->into, grad)) {
      return true;
    }
  }
  return false;
}

/* Tensors of what was there before: those of n of the graph's values, borrowed. */
typedef struct given {
  rg_tensor **x;
  int32_t n;
} given;

static rg_status given_of(const rg_graph *g, given *out)
{
  const int32_t n_values = rg_ir_n_values(g);

  out->n = 0;
  out->x = rg_host_zeroed(((size_t)n_values + 1) * sizeof(rg_tensor *));
  if (out->x == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory for gradients");
  }
  for (int32_t i = 0; i < n_values; i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);
    rg_tensor *x = !v->removed && v->producer == RG_IR_NONE ? rg_ir_bound(g, i) : NULL;

    if (x != NULL) {
      out->x[out->n++] = x;
    }
  }
  return RG_OK;
}

static bool is_given(const given *all, const rg_tensor *grad)
{
  for (int32_t i = 0; i < all->n; i++) {
    if (rg_tensor_same_storage(all->x[i], grad)) {
      return true;
    }
  }
  return false;
}

static bool is_listed(const rg_leaf_gradient *list, int32_t n, const rg_tensor *grad)
{
  for (int32_t i = 0; i < n; i++) {
    if (list[i].grad == grad) {
      return true;
    }
  }
  return false;
}

rg_status rg_graph_leaf_gradients(const rg_graph *g, rg_leaf_gradient **out, int32_t *n_out)
{
  if (g == NULL || out == NULL || n_out == NULL) {
    return rg_fail(RG_EARG, "graph: a graph and places for its gradients are expected");
  }
  given all = { 0 };
  RG_TRY(given_of(g, &all));
  rg_leaf_gradient *list = rg_host_zeroed(((size_t)all.n + 1) * sizeof(*list));
  rg_status status = list != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory for gradients");
  int32_t n = 0;

  for (int32_t i = 0; i < all.n && status == RG_OK; i++) {
    rg_tensor *grad = NULL;

    if (!rg_requires_grad(all.x[i])) {
      continue;
    }
    status = rg_grad_held(all.x[i], &grad);
    const bool made = grad != NULL && is_made(g, grad);
    const bool read = grad != NULL && !made && is_given(&all, grad);

    if ((made || read) && !is_listed(list, n, grad)) {
      list[n++] = (rg_leaf_gradient){ .x = rg_tensor_retain(all.x[i]), .grad = grad, .read = read };
    } else {
      rg_tensor_release(grad);
    }
  }
  rg_host_free(all.x);
  if (status != RG_OK) {
    rg_leaf_gradients_free(list, n);
    list = NULL;
    n = 0;
  }
  *out = list;
  *n_out = n;
  return status;
}

void rg_leaf_gradients_free(rg_leaf_gradient *list, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    rg_tensor_release(list[i].x);
    rg_tensor_release(list[i].grad);
  }
  rg_host_free(list);
}

rg_status rg_leaf_gradients_attach(const rg_leaf_gradient *list, int32_t n, int64_t *seen)
{
  if (*seen == rg_grad_changes()) {
    return RG_OK;
  }
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_grad_attach(list[i].x, list[i].grad, list[i].read));
  }
  *seen = rg_grad_changes();
  return RG_OK;
}
