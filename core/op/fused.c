/* SPDX-License-Identifier: MIT */
/*
** The record of fused chains.  A chain comes out of files too: what it says of its tensors is
** checked here, before any kernel believes it.
*/
#include "op/fused.h"

#include <stdio.h>
#include <string.h>

#include "op/act.h"
#include "op/binary.h"
#include "op/list.h"
#include "op/unary.h"

_Static_assert(sizeof(((rg_links *)0)->at) / sizeof(rg_link) == RG_FUSED_LINKS,
               "the public struct has room for as many links");

/* -- What a link is -------------------------------------------------------------------- */

int32_t rg_fused_kind(int32_t id)
{
  /* by class: those that make numbers out of floats */
  enum {
    EXACT = RG_LINK_UNARY,
    FLOAT = RG_LINK_UNARY,
    TRUTH = RG_LINK_NONE,
    ARITH = RG_LINK_BINARY,
    RATIO = RG_LINK_BINARY,
    COMPARE = RG_LINK_NONE,
    INTEGER = RG_LINK_NONE
  };

/* clang-format off */
#define CASE(NAME, name, help, class) [RG_OP_##NAME] = class,
  static const int8_t kind[RG_OP_COUNT] = {
    RG_UNARY_LIST(CASE)
    RG_BINARY_LIST(CASE)
    [RG_OP_ACT_BACK] = RG_LINK_BINARY
  };
/* clang-format on */
#undef CASE

  return id >= 0 && id < RG_OP_COUNT ? kind[id] : RG_LINK_NONE;
}

const char *rg_fused_name(const rg_link *link)
{
  return rg_fused_kind(link->id) != RG_LINK_NONE ? rg_ops[link->id]->name : "cast";
}

const char *rg_fused_names(const rg_links *links)
{
  enum { LONGEST = 16 };
  char text[RG_FUSED_LINKS * LONGEST];
  int32_t n = 0;

  text[0] = '\0';
  for (int64_t i = 0; i < links->n && n < (int32_t)sizeof(text) - LONGEST; i++) {
    n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s", i > 0 ? "," : "",
                  rg_fused_name(&links->at[i]));
  }
  return rg_text_keep(text);
}

/* -- Checks ---------------------------------------------------------------------------- */

static rg_status wrong(const rg_call *call, int64_t i, const char *what)
{
  return rg_fail(RG_EARG, "%s: link %lld %s", call->op->name, (long long)i + 1, what);
}

/* The results that links before made. */
typedef struct made {
  int32_t n;
  int32_t dtype[RG_MAX_OUT];
} made;

/* Is it an input, or a result that was made? */
static bool is_there(const rg_call *call, const made *m, int32_t operand)
{
  return operand >= 0 && operand < call->n_in + m->n;
}

static int32_t dtype_of(const rg_call *call, const made *m, int32_t operand)
{
  return operand < call->n_in ? call->in[operand]->_dtype : m->dtype[operand - call->n_in];
}

/* value: the type of what is at hand, -1 for nothing. */
static rg_status check_link(const rg_call *call, const made *m, int64_t i, int32_t value)
{
  const rg_link *l = &((const rg_fused_args *)call->args)->links.at[i];
  int32_t kind = rg_fused_kind(l->id);

  if (l->id != RG_FUSED_CAST && kind == RG_LINK_NONE) {
    return wrong(call, i, "is no elementwise function of floats");
  }
  if (l->dtype < 0 || l->dtype >= RG_DTYPE_COUNT || !rg_dtype_is_float(l->dtype)) {
    return wrong(call, i, "makes no float type");
  }
  if (l->load != RG_FUSED_NONE) {
    if (!is_there(call, m, l->load)) {
      return wrong(call, i, "loads what is not there");
    }
    value = dtype_of(call, m, l->load);
  }
  if (value < 0) {
    return wrong(call, i, "has no value to work on");
  }
  if ((value == RG_F64) != (l->dtype == RG_F64) || (l->id != RG_FUSED_CAST && value != l->dtype)) {
    return wrong(call, i, "has a value of another type");
  }
  if ((kind == RG_LINK_BINARY) == (l->with == RG_FUSED_NONE) || l->with < RG_FUSED_VALUE ||
      (l->with == RG_FUSED_NUMBER && l->id == RG_OP_ACT_BACK)) {
    return wrong(call, i, "has a second operand where it takes none, or none where it takes one");
  }
  if (l->with >= 0 && (!is_there(call, m, l->with) || dtype_of(call, m, l->with) != l->dtype)) {
    return wrong(call, i, "reads what is not there, or of another type");
  }
  if (l->id == RG_OP_ACT_BACK ? l->act <= RG_ACT_NONE || l->act >= RG_ACT_COUNT : l->act != 0) {
    return wrong(call, i, "has no such activation");
  }
  if (l->reversed < 0 || (l->reversed > 0 && kind != RG_LINK_BINARY) || l->reversed > 1) {
    return wrong(call, i, "turns round what it does not have");
  }
  return RG_OK;
}

/* Results are numbered in the order in which they are stored. */
static rg_status check_store(const rg_call *call, made *m, int64_t i)
{
  const rg_link *l = &((const rg_fused_args *)call->args)->links.at[i];

  if (l->store == RG_FUSED_NONE) {
    return RG_OK;
  }
  if (l->store != m->n || m->n == RG_MAX_OUT) {
    return wrong(call, i, "stores a result that is not the next one");
  }
  m->dtype[m->n++] = l->dtype;
  return RG_OK;
}

static rg_status check_links(const rg_call *call, made *m)
{
  const rg_links *links = &((const rg_fused_args *)call->args)->links;
  int32_t value = -1;

  if (links->n < 1 || links->n > RG_FUSED_LINKS) {
    return rg_fail(RG_EARG, "%s: %lld links, where there are 1 to %d", call->op->name,
                   (long long)links->n, RG_FUSED_LINKS);
  }
  for (int64_t i = 0; i < links->n; i++) {
    RG_TRY(check_link(call, m, i, value));
    RG_TRY(check_store(call, m, i));
    value = links->at[i].dtype;
  }
  if (links->at[links->n - 1].store == RG_FUSED_NONE) {
    return wrong(call, links->n - 1, "is the last one and stores nothing");
  }
  return call->n_in + m->n <= RG_FUSED_INPUTS
             ? RG_OK
             : rg_fail(RG_EARG, "%s: %d tensors, where there are at most %d", call->op->name,
                       call->n_in + m->n, RG_FUSED_INPUTS);
}

/* -- Shape ------------------------------------------------------------------------------ */

/* The shape that two shapes broadcast to, into a. */
static rg_status broaden(const rg_call *call, rg_meta *a, const rg_tensor *x)
{
  rg_tensor now = { ._dtype = a->dtype, ._ndim = a->ndim };

  memcpy(now._shape, a->shape, sizeof(a->shape));
  return rg_broadcast(call->op, &now, x, a);
}

static rg_status infer(rg_call *call)
{
  rg_meta all;
  made m = { 0 };
  int64_t div;
  int64_t mod;
  char text[96];

  if (call->n_in < 1 || call->n_in > RG_FUSED_INPUTS) {
    return rg_fail(RG_EARG, "%s: %d inputs, where there are 1 to %d", call->op->name, call->n_in,
                   RG_FUSED_INPUTS);
  }
  RG_TRY(check_links(call, &m));
  all = rg_meta_of(call->in[0]);
  for (int32_t i = 1; i < call->n_in; i++) {
    RG_TRY(broaden(call, &all, call->in[i]));
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (!rg_fused_place(call->in[i], all.shape, all.ndim, &div, &mod)) {
      return rg_fail(RG_EARG, "%s: %s has gaps, or is repeated inside of its elements",
                     call->op->name, rg_tensor_text(call->in[i], text, sizeof(text)));
    }
  }
  for (int32_t i = 0; i < m.n; i++) {
    call->out[i] = all;
    call->out[i].dtype = m.dtype[i];
  }
  call->n_out = m.n;
  return RG_OK;
}

/* -- Cost ------------------------------------------------------------------------------- */

static double flops_of(const rg_link *l)
{
  return l->id == RG_FUSED_CAST                   ? 0
         : l->id == RG_OP_ACT_BACK                ? rg_act_back_flops(l->act)
         : rg_fused_kind(l->id) == RG_LINK_BINARY ? rg_binary_flops(l->id)
                                                  : rg_unary_flops(l->id);
}

static rg_cost cost(const rg_call *call)
{
  const rg_links *links = &((const rg_fused_args *)call->args)->links;
  double flops = 0;

  for (int64_t i = 0; i < links->n; i++) {
    flops += flops_of(&links->at[i]);
  }
  return rg_cost_of(call, flops * (double)rg_meta_count(&call->out[0]));
}

static const rg_arg fused_args[] = { RG_FUSED_ARGS(RG_ARG_ROW, rg_fused_args, ) };

extern const rg_op rg_op_fused;
const rg_op rg_op_fused = {
  .name = "fused",
  .doc = "elementwise functions, one after the other in one pass over memory",
  .id = RG_OP_FUSED,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_LIST("xs", NATIVE, FLOAT)),
  .result = { "y1", "y2", "y3", "y4", "y5", "y6", "y7", "y8" },
  RG_ARGS(rg_fused_args, fused_args),
  .infer = infer,
  .cost = cost,
};
