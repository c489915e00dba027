/* SPDX-License-Identifier: MIT */
/*
** Functions whose gradient the caller computes: recorded as one call with a number; the backward
** pass stops there and asks (no callback: LuaJIT's cost a hundred times a call, and may not fail).
*/
#include <stdlib.h>

#include "grad/node.h"

/* -- Numbers that are free again -------------------------------------------------------------- */

static _Thread_local int64_t *dead;
static _Thread_local int64_t n_dead;
static _Thread_local int64_t room;

void rg_number_gone(int64_t id)
{
  if (id == 0) {
    return;
  }
  if (n_dead == room) {
    int64_t more = room == 0 ? 64 : 2 * room;
    int64_t *grown = realloc(dead, (size_t)more * sizeof(*dead));

    if (grown == NULL) {
      return; /* its number stays taken: what the caller keeps for it is lost, nothing else */
    }
    dead = grown;
    room = more;
  }
  dead[n_dead++] = id;
}

int64_t rg_grad_dead(int64_t *ids, int64_t n)
{
  int64_t count = 0;

  while (count < n && n_dead > 0) {
    ids[count++] = dead[--n_dead];
  }
  return count;
}

/* -- Recording -------------------------------------------------------------------------------- */

/* Never run: what it stands for has run already. */
static rg_status never(rg_call *call)
{
  (void)call;
  return rg_fail(RG_EBUG, "function: it is recorded, not run");
}

static rg_status asked(rg_grad *g)
{
  (void)g;
  return rg_fail(RG_EBUG, "function: its gradient is the caller's");
}

static const rg_op op_function = {
  .name = "function", .id = -1, .amp = RG_AMP_NONE, .infer = never, .grad = asked
};

static rg_status check_out(rg_tensor *const *out, int32_t n)
{
  char text[96];

  if (n < 1 || n > RG_MAX_OUT) {
    return rg_fail(RG_EARG, "function: %d results; 1 to %d are possible", n, RG_MAX_OUT);
  }
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_tensor_check(out[i], "function"));
    if (rg_tensor_tracked(out[i])) {
      return rg_fail(RG_EARG,
                     "function: result %d, %s, requires a gradient or came from what does; results "
                     "are computed again",
                     i + 1, rg_tensor_text(out[i], text, sizeof(text)));
    }
  }
  return RG_OK;
}

rg_status rg_grad_record(const rg_tensor *const *in, int32_t n, rg_tensor *const *out,
                         int32_t n_out, int64_t id, int32_t flags, int32_t *recorded)
{
  rg_call call = { .op = &op_function, .in = in, .n_in = n, .n_out = n_out };
  int32_t mode = rg_grad_mode(1);
  bool any = false;

  rg_grad_mode(mode);
  *recorded = 0;
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(rg_tensor_check(in[i], "function"));
    any = any || (rg_tensor_tracked(in[i]) && rg_dtype_is_float(in[i]->_dtype));
  }
  RG_TRY(check_out(out, n_out));
  if (id < 1) {
    return rg_fail(RG_EARG, "function: its number is %lld; 1 is the least", (long long)id);
  }
  if (!any || mode == 0) {
    return RG_OK;
  }
  for (int32_t i = 0; i < n_out; i++) {
    call.out[i] = rg_meta_of(out[i]);
  }
  RG_TRY(rg_node_record(&call, out, (flags & RG_FUNCTION_SAVE) != 0 ? RG_SAVE_ALL : 0, id,
                        (flags & RG_FUNCTION_GOES_BACK) != 0));
  *recorded = 1;
  return RG_OK;
}
