/* SPDX-License-Identifier: MIT */
/*
** Fusing: neighbouring steps that are elementwise functions of one shape become one chain
** (op/fused.h), so that what goes from one to the next does not cross memory.
**
** Only neighbours are joined, so nothing changes its place among the other steps.  Inside a chain
** all links are done for some elements before the next elements are begun; that is the same as one
** step after the other as long as memory that is written is met at the same element by all who use
** it, which is checked.  A result is stored unless the next link is the only one that reads it and
** nobody holds it.
*/
#include <string.h>

#include "graph/plan.h"
#include "op/act.h"
#include "op/binary.h"
#include "op/fused.h"
#include "op/list.h"

/* A chain in the making. */
typedef struct making {
  rg_plan *plan;
  step *first;
  int32_t n; /* steps */
  rg_fused_args args;
  const rg_tensor *in[RG_FUSED_INPUTS];
  int32_t n_in;
  rg_tensor *out[RG_MAX_OUT];
  int32_t n_out;
  const rg_tensor *value; /* what the last link made */
} making;

/* -- Which steps ---------------------------------------------------------------------- */

static bool is_unary(int32_t id)
{
  switch (id) {
#define CASE(NAME, name, help, class) case RG_OP_##NAME:
    RG_UNARY_LIST(CASE)
#undef CASE
    return true;
  default:
    return false;
  }
}

static bool is_binary(int32_t id)
{
  switch (id) {
#define CASE(NAME, name, help, class) case RG_OP_##NAME:
    RG_BINARY_LIST(CASE)
#undef CASE
    return id < RG_OP_EQ || id > RG_OP_GE;
  default:
    return false;
  }
}

static bool computes(const rg_tensor *x)
{
  return x->_dtype == RG_F32 || x->_dtype == RG_F16 || x->_dtype == RG_BF16;
}

/* Inputs without those that are left out behind them: the second one of x + 1. */
static int32_t inputs_of(const step *s)
{
  int32_t n = s->call.n_in;

  while (n > 0 && s->call.in[n - 1] == NULL) {
    n--;
  }
  return n;
}

/* Is the step an elementwise function that a link can be? */
static bool fits(const step *s)
{
  const rg_tensor *y = s->out[0];
  int32_t id = s->call.op->id;
  bool converts = id == RG_OP_CAST || id == RG_OP_COPY;
  int64_t div;
  int64_t mod;

  if ((!is_unary(id) && !is_binary(id) && !converts && id != RG_OP_ACT_BACK) ||
      s->call.n_out != 1 || y->_count == 0 || !computes(y) || !rg_is_contiguous(y)) {
    return false;
  }
  for (int32_t i = 0; i < inputs_of(s); i++) {
    const rg_tensor *x = s->call.in[i];

    if (!computes(x) || (!converts && x->_dtype != y->_dtype) ||
        !rg_fused_place(x, y->_shape, y->_ndim, &div, &mod)) {
      return false;
    }
  }
  return true;
}

/* -- Memory --------------------------------------------------------------------------- */

static bool same_place(const rg_tensor *x, const rg_tensor *y)
{
  return x->_data == y->_data && x->_dtype == y->_dtype && x->_count == y->_count;
}

/* Do two tensors share memory without meeting at the same elements? */
static bool crosses(const rg_tensor *x, const rg_tensor *y)
{
  const char *a = x->_data;
  const char *b = y->_data;

  return a < b + rg_tensor_bytes(y) && b < a + rg_tensor_bytes(x) &&
         !(a == b && x->_count == y->_count &&
           rg_dtype_bytes(x->_dtype) == rg_dtype_bytes(y->_dtype));
}

/* Can s be done element by element with the n steps from first on? */
static bool agrees(const step *first, int32_t n, const step *s)
{
  const rg_tensor *y = s->out[0];

  if (!rg_tensor_shaped(y, first->out[0]->_shape, first->out[0]->_ndim)) {
    return false;
  }
  for (const step *t = first; n-- > 0; t = t->next) {
    if (crosses(t->out[0], y)) {
      return false;
    }
    for (int32_t i = 0; i < inputs_of(s); i++) {
      if (crosses(t->out[0], s->call.in[i])) {
        return false;
      }
    }
    for (int32_t i = 0; i < inputs_of(t); i++) {
      if (crosses(t->call.in[i], y)) {
        return false;
      }
    }
  }
  for (int32_t i = 0; i < inputs_of(s); i++) {
    if (crosses(s->call.in[i], y)) {
      return false;
    }
  }
  return true;
}

/* -- Links ---------------------------------------------------------------------------- */

/* The number of an input, which becomes one where it was none; there is room. */
static int32_t input_of(making *m, const rg_tensor *x)
{
  for (int32_t i = 0; i < m->n_in; i++) {
    if (m->in[i]->_data == x->_data && m->in[i]->_dtype == x->_dtype &&
        rg_tensor_shaped(m->in[i], x->_shape, x->_ndim)) {
      return i;
    }
  }
  m->in[m->n_in] = x;
  return m->n_in++;
}

/* Is what s made read by anybody but the step behind it, by that one only as the value at hand? */
static bool is_needed(const step *s, int32_t left)
{
  const rg_storage *storage = s->out[0]->_storage;
  const step *next = left > 1 ? s->next : NULL;

  if (atomic_load_explicit(&((rg_storage *)storage)->strong, memory_order_relaxed) > 0 ||
      next == NULL) {
    return true;
  }
  for (int32_t i = 0; i < next->call.n_in; i++) {
    const rg_tensor *x = next->call.in[i];

    if (x != NULL && x->_storage == storage && !same_place(x, s->out[0])) {
      return true;
    }
  }
  for (const step *t = next->next; t != NULL; t = t->next) {
    for (int32_t i = 0; i < t->call.n_in; i++) {
      if (t->call.in[i] != NULL && t->call.in[i]->_storage == storage) {
        return true;
      }
    }
  }
  return false;
}

/* One more link, for step s, behind which the chain has `left` steps with it; false: no room. */
static bool link_of(making *m, step *s, int32_t left)
{
  const rg_call *call = &s->call;
  int32_t id = call->op->id;
  bool two = is_binary(id) || id == RG_OP_ACT_BACK;
  const rg_binary_args *numbers = is_binary(id) ? call->args : NULL;
  const rg_tensor *a = call->in[0];
  const rg_tensor *b = inputs_of(s) > 1 ? call->in[1] : NULL;
  rg_link *l = &m->args.links.at[m->args.links.n];
  int32_t load = RG_FUSED_NONE;
  int32_t with = RG_FUSED_NONE;

  if (m->args.links.n == RG_FUSED_LINKS || m->n_in + 2 > RG_FUSED_INPUTS) {
    return false;
  }
  *l =
      (rg_link){ .id = (int16_t)(two || is_unary(id) ? id : -1),
                 .dtype = (int8_t)s->out[0]->_dtype,
                 .store = RG_FUSED_NONE,
                 .act = (int8_t)(id == RG_OP_ACT_BACK ? ((const rg_act_args *)call->args)->act : 0),
                 .reversed = (int8_t)(numbers != NULL && numbers->scalar && numbers->reversed),
                 .number = numbers != NULL ? numbers->value : 0 };
  if (b != NULL && m->value != NULL && !same_place(a, m->value) && same_place(b, m->value)) {
    const rg_tensor *c = a;

    a = b;
    b = c;
    l->reversed = 1;
  }
  if (m->value == NULL || !same_place(a, m->value)) {
    load = input_of(m, a);
  }
  if (b != NULL) {
    with = same_place(a, b) ? RG_FUSED_VALUE : input_of(m, b);
  } else if (two) {
    with = RG_FUSED_NUMBER;
  }
  if (is_needed(s, left)) {
    if (m->n_out == RG_MAX_OUT) {
      return false;
    }
    l->store = (int8_t)m->n_out;
    m->out[m->n_out++] = s->out[0];
  }
  l->load = (int8_t)load;
  l->with = (int8_t)with;
  m->value = s->out[0];
  m->args.links.n++;
  return true;
}

/* -- Chains --------------------------------------------------------------------------- */

/* The n steps from first on as a chain; false where it has no room for them. */
static bool describe(making *m, rg_plan *plan, step *first, int32_t n)
{
  step *s = first;

  *m = (making){ .plan = plan, .first = first, .n = n };
  for (int32_t left = n; left > 0; left--, s = s->next) {
    if (!link_of(m, s, left)) {
      return false;
    }
  }
  return m->n_out > 0;
}

/* Put the chain in the place of its steps. */
static rg_status put(making *m, step **link)
{
  rg_plan *plan = m->plan;
  rg_call call = m->first->call;
  step **end = plan->last;
  step *made;
  step *s = m->first;

  call.op = rg_ops[RG_OP_FUSED];
  call.in = m->in;
  call.n_in = m->n_in;
  call.n_out = m->n_out;
  call.args = &m->args;
  call.scratch_bytes = 0;
  RG_TRY(rg_plan_add(plan, &call, rg_backend_kernel(call.device, call.op), m->out, &made));
  made->module = m->first->module;
  rg_plan_cools(plan); /* a chain that has not run */
  *end = NULL;         /* it was added behind the last: take it from there */
  plan->last = end;
  for (int32_t i = 0; i < m->n; i++) {
    step *next = s->next;

    rg_plan_drop(plan, s);
    s = next;
  }
  made->next = s;
  *link = made;
  if (s == NULL) {
    plan->last = &made->next;
  }
  return RG_OK;
}

/* How many steps from s on can be one chain. */
static int32_t length_from(const step *s)
{
  const step *first = s;
  int32_t n = 0;

  while (s != NULL && n < RG_FUSED_LINKS && fits(s) && agrees(first, n, s)) {
    n++;
    s = s->next;
  }
  return n;
}

rg_status rg_plan_fuse(rg_plan *plan)
{
  step **link = &plan->first;

  if (plan->device <= RG_CPU || rg_backend_kernel(plan->device, rg_ops[RG_OP_FUSED]) == NULL) {
    return RG_OK;
  }
  while (*link != NULL) {
    making m;
    int32_t n = length_from(*link);

    while (n > 1 && !describe(&m, plan, *link, n)) {
      n--;
    }
    if (n > 1) {
      RG_TRY(put(&m, link));
    }
    link = &(*link)->next;
  }
  return RG_OK;
}
