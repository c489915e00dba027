/* SPDX-License-Identifier: MIT */
/*
** Tensors that require a gradient, and their accumulated gradients.
*/
#include "grad/node.h"
#include "tensor/scope.h"

static int64_t offset_of(const rg_tensor *x)
{
  return (char *)x->_data - (char *)x->_storage->block.data;
}

/* From now on gradients of x are kept too: in its part of the storage, or in all of it. */
static rg_status widen(track *t, const rg_tensor *x)
{
  char text[96];

  if (!t->leaf) {
    t->window = (x->_flags & RG_TENSOR_PART) != 0 ? rg_window_of(x) : (rg_window){ 0 };
    return RG_OK;
  }
  if (rg_window_fit(&t->window, x, offset_of(x)) != RG_FIT_INSIDE) {
    if (t->grad != NULL) {
      return rg_fail(RG_EARG, "require_grad: a gradient of another part of %s is there; zero it",
                     rg_tensor_text(x, text, sizeof(text)));
    }
    t->window = (rg_window){ 0 };
  }
  return RG_OK;
}

rg_status rg_require_grad(rg_tensor *x, int32_t on)
{
  char text[96];
  track *t;

  RG_TRY(rg_tensor_check(x, "require_grad"));
  if (on && !rg_dtype_is_float(x->_dtype)) {
    return rg_fail(RG_EDTYPE, "require_grad: %s is not of a float type that is computed with",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  t = (track *)x->_storage->tracking;
  if (t != NULL && t->writer != NULL) {
    if (on) {
      return RG_OK; /* gradient flows through it already */
    }
    return rg_fail(RG_EARG,
                   "require_grad: %s was computed from tensors that require a gradient; detach it",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  if (!on) {
    if (t != NULL) {
      rg_number_gone(t->watch);
      t->watch = 0;
      x->_storage->tracking = NULL;
      t->hooks.release(&t->hooks);
      rg_grad_changed();
    }
    return RG_OK;
  }
  RG_TRY(rg_track_of(x->_storage, &t));
  if (t->window.width > 0 || (x->_flags & RG_TENSOR_PART) != 0) {
    RG_TRY(widen(t, x));
  }
  if (!t->leaf) {
    rg_grad_changed();
  }
  t->leaf = true;
  x->_flags &= ~(uint32_t)RG_TENSOR_DETACHED;
  return RG_OK;
}

int32_t rg_requires_grad(const rg_tensor *x)
{
  return x != NULL && rg_tensor_tracked(x) && rg_dtype_is_float(x->_dtype);
}

int32_t rg_grad_flows_through(const rg_tensor *x)
{
  return rg_requires_grad(x) && ((const track *)x->_storage->tracking)->writer != NULL;
}

rg_status rg_leaf_view(const track *t, const rg_tensor *what, const rg_tensor *x, rg_tensor **out)
{
  *out = NULL;
  if (what == NULL || rg_window_fit(&t->window, x, offset_of(x)) != RG_FIT_INSIDE) {
    return RG_OK;
  }
  return rg_window_view(&t->window, what, x, offset_of(x), out);
}

rg_status rg_grad_of(const rg_tensor *x, rg_tensor **out)
{
  const track *t;

  RG_TRY(rg_tensor_check(x, "grad"));
  if (out == NULL) {
    return rg_fail(RG_EARG, "grad: out is NULL");
  }
  t = (const track *)x->_storage->tracking;
  if (t == NULL) {
    *out = NULL;
    return RG_OK;
  }
  return rg_leaf_view(t, t->grad, x, out);
}

rg_status rg_zero_grad(rg_tensor *x, int32_t set)
{
  track *t;

  RG_TRY(rg_tensor_check(x, "zero_grad"));
  t = (track *)x->_storage->tracking;
  if (t == NULL || t->grad == NULL) {
    return RG_OK;
  }
  if (set) {
    return rg_fill_(t->grad, 0);
  }
  rg_tensor_release(t->grad);
  t->grad = NULL;
  rg_grad_changed();
  return RG_OK;
}

/* Could a tensor be the gradient of what is tracked? */
static bool is_gradient_of(const track *t, const rg_tensor *x, const rg_tensor *grad)
{
  if (t->grad != NULL) {
    return grad->_device == t->grad->_device && grad->_dtype == t->grad->_dtype &&
           rg_tensor_bytes(grad) == rg_tensor_bytes(t->grad);
  }
  return grad->_device == x->_device && grad->_dtype == x->_dtype &&
         rg_tensor_bytes(grad) == rg_window_bytes(&t->window, rg_storage_root(x->_storage)->bytes);
}

rg_status rg_grad_exchange(rg_tensor *x, rg_tensor *grad, rg_tensor **before)
{
  char text[96];
  track *t;

  RG_TRY(rg_tensor_check(x, "grad"));
  if (before == NULL) {
    return rg_fail(RG_EARG, "grad: before is NULL");
  }
  t = (track *)x->_storage->tracking;
  if (grad != NULL && (t == NULL || !t->leaf || !is_gradient_of(t, x, grad))) {
    return rg_fail(RG_EARG, "grad: %s has no gradient like this one",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  *before = t != NULL ? t->grad : NULL;
  if (t != NULL) {
    t->grad = grad != NULL ? rg_tensor_retain(grad) : NULL;
    rg_grad_changed();
  }
  return RG_OK;
}

rg_status rg_grad_held(const rg_tensor *x, rg_tensor **out)
{
  RG_TRY(rg_tensor_check(x, "grad"));
  if (out == NULL) {
    return rg_fail(RG_EARG, "grad: out is NULL");
  }
  const track *t = (const track *)x->_storage->tracking;

  *out = t != NULL && t->grad != NULL ? rg_tensor_retain(t->grad) : NULL;
  return RG_OK;
}

rg_status rg_leaf_copy(rg_tensor *to, const rg_tensor *from)
{
  const int32_t mode = rg_grad_mode(0);
  rg_tensor *a = NULL;
  rg_tensor *b = NULL;
  rg_status status = rg_view(to, &to->_count, 1, &a);

  if (status == RG_OK) {
    status = rg_view(from, &to->_count, 1, &b);
  }
  if (status == RG_OK) {
    status = rg_copy_(a, b);
  }
  rg_tensor_release(a);
  rg_tensor_release(b);
  rg_grad_mode(mode);
  return status;
}

rg_status rg_grad_attach(rg_tensor *x, rg_tensor *grad, int32_t contents)
{
  char text[96];

  RG_TRY(rg_tensor_check(x, "grad"));
  RG_TRY(rg_tensor_check(grad, "grad"));
  track *t = (track *)x->_storage->tracking;

  if (t == NULL || !t->leaf || t->grad == grad) {
    return RG_OK;
  }
  if (!is_gradient_of(t, x, grad)) {
    return rg_fail(RG_EARG, "grad: %s has no gradient like this one",
                   rg_tensor_text(x, text, sizeof(text)));
  }
  if (contents) {
    RG_TRY(t->grad != NULL ? rg_leaf_copy(grad, t->grad) : rg_fill_(grad, 0));
  }
  rg_tensor_release(t->grad);
  t->grad = rg_tensor_retain(grad);
  rg_grad_changed();
  return RG_OK;
}

rg_status rg_leaf_keep(track *t)
{
  rg_status status = RG_OK;

  if (t->flow == NULL) {
    return RG_OK;
  }
  if (t->grad == NULL) {
    rg_tensor *grad = NULL;

    /* a gradient is written to by whoever clips or zeroes it: it must be the leaf's alone */
    if (t->flow_own || rg_tensor_is_sole(t->flow)) { /* also where it is the leaf's buffer */
      grad = rg_tensor_retain(t->flow);
    } else {
      status = rg_clone(t->flow, &grad);
    }
    t->grad = grad;
    rg_grad_changed();
  } else {
    int64_t shape[] = { t->grad->_count };
    rg_tensor *a = NULL;
    rg_tensor *b = NULL;

    status = rg_view(t->grad, shape, 1, &a);
    if (status == RG_OK) {
      status = rg_view(t->flow, shape, 1, &b);
    }
    if (status == RG_OK) {
      status = rg_add_(a, b);
    }
    rg_tensor_release(a);
    rg_tensor_release(b);
  }
  return status;
}

static _Atomic int64_t changes;

void rg_grad_changed(void)
{
  atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
}

int64_t rg_grad_changes(void)
{
  return atomic_load_explicit(&changes, memory_order_relaxed);
}
