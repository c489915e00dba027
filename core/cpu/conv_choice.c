/* SPDX-License-Identifier: MIT */
/*
** Which way of convolutions is the fastest for which, measured on this machine (choice.c keeps it),
** else by what ways are expected to take (conv_model.c).
**
** A convolution is measured where it is first run with tuning on, on its own images: what is
** written there is written again by the way that is taken.
*/
#include <string.h>

#include "cpu/conv.h"
#include "cpu/conv_model.h"
#include "cpu/cpu.h"

/* Is there more than one way?  For what oneDNN reads in place. */
static bool is_open(const rg_call *call, rg_tensor *const *out)
{
  const int32_t dtype = out[0]->_dtype;

  if (!rg_conv_dnnl_reads(dtype) || !rg_is_contiguous(out[0])) {
    return false;
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];

    if (x != NULL && (!rg_is_contiguous(x) || (i < 2 && x->_dtype != dtype))) {
      return false;
    }
  }
  return true;
}

static void key_of(const rg_call *call, rg_tensor *const *out, rg_choice *key)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int32_t id = call->op->id;

  memset(key, 0, sizeof(*key)); /* keys are compared byte by byte */
  key->work = id == RG_OP_CONV2D             ? RG_WORK_CONV
              : id == RG_OP_CONV2D_BACK_DATA ? RG_WORK_CONV_DATA
                                             : RG_WORK_CONV_WEIGHT;
  key->conv = (rg_conv_shape){ .images = s.n, .channels = s.c, .outs = s.o, .groups = s.groups };
  for (int i = 0; i < 2; i++) {
    key->conv.size[i] = s.x[i];
    key->conv.kernel[i] = s.w[i];
    key->conv.stride[i] = o->stride[i];
    key->conv.dilation[i] = o->dilation[i];
    key->conv.pad_low[i] = o->pad_low[i];
    key->conv.pad_high[i] = o->pad_high[i];
  }
  key->layout = o->layout;
  key->compute = out[0]->_dtype == RG_BF16 ? RG_BF16 : RG_F32;
  key->a_dtype = call->in[0]->_dtype;
  key->b_dtype = call->in[1]->_dtype;
  key->c_dtype = out[0]->_dtype;
  key->kept = key->work != RG_WORK_CONV_WEIGHT && (call->in[1]->_flags & RG_TENSOR_PARAM) != 0;
  key->epilogue = key->work == RG_WORK_CONV && o->act != RG_ACT_NONE;
  key->threads = rg_threads_for(call->op->cost(call).flops);
  key->isa = rg_isa();
}

static void ways_of(const rg_call *call, rg_tensor *const *out, bool able[RG_WAYS])
{
  memset(able, 0, RG_WAYS * sizeof(bool));
  able[rg_conv_dnnl_standard(call)] = true;
  if (is_open(call, out)) {
    able[RG_CONV_BLOCKED] = true;
    able[RG_CONV_PLAIN] = rg_conv_dnnl_is_plain(call);
    able[RG_CONV_TILES] = rg_conv_may_be_few(call, out);
    able[RG_CONV_PRODUCT] = rg_conv_is_product(call, out);
    able[RG_CONV_IMPLICIT] = rg_conv_may_be_implicit(call, out);
  }
}

int32_t rg_conv_standard(const rg_call *call, rg_tensor *const *out)
{
  bool able[RG_WAYS];

  ways_of(call, out, able);
  return rg_conv_expected(call, out, able);
}

/* -- Measuring ------------------------------------------------------------------------------- */

typedef struct trial {
  const rg_call *call;
  rg_tensor *const *out;
  bool stays;
  rg_memo *memo[RG_WAYS]; /* in a plan's step */
} trial;

static rg_status go(void *work, int32_t way)
{
  trial *t = work;
  rg_frame frame = { .memo = t->stays ? &t->memo[way] : NULL, .path = "" };

  return rg_conv_by(t->call, t->out, &frame, way, false);
}

static rg_status measure(const rg_call *call, rg_tensor *const *out, bool stays, int32_t rounds,
                         const rg_ways *open, rg_choice *choice)
{
  trial t = { .call = call, .out = out, .stays = stays };
  rg_ways ways = *open;

  ways.begin = go;
  ways.go = go;
  ways.work = &t;
  rg_status status = rg_choice_measure(&ways, rounds, choice);

  for (int32_t way = 0; way < RG_WAYS; way++) {
    if (t.memo[way] != NULL) {
      t.memo[way]->release(t.memo[way]);
    }
  }
  return status;
}

static rg_status choose(const rg_call *call, rg_tensor *const *out, bool stays, int32_t rounds,
                        rg_choice *choice, int32_t *by)
{
  rg_ways ways = { 0 };
  int32_t n = 0;

  key_of(call, out, choice);
  ways_of(call, out, ways.able);
  choice->path = choice->standard = ways.standard = rg_conv_expected(call, out, ways.able);
  for (int32_t way = 0; way < RG_WAYS; way++) {
    n += ways.able[way];
  }
  if (n < 2 || rg_choice_pinned()) {
    *by = n < 2 ? RG_BY_ONLY : RG_BY_PINNED;
    return RG_OK;
  }
  bool known = !(rounds > 0 && rg_choice_forgets()) && rg_choice_known(choice);

  if (known && (choice->path >= RG_CONV_COUNT || !ways.able[choice->path])) {
    key_of(call, out, choice); /* it came from elsewhere, and says what cannot be */
    choice->path = choice->standard = ways.standard;
    known = false;
  }
  if (!known && rounds > 0) {
    rg_status status = measure(call, out, stays, rounds, &ways, choice);

    if (status == RG_ENOSUP && ways.standard != rg_conv_dnnl_standard(call)) {
      ways.able[ways.standard] = false;
      choice->path = choice->standard = ways.standard = rg_conv_dnnl_standard(call);
      status = measure(call, out, stays, rounds, &ways, choice);
    }
    RG_TRY(status);
    RG_TRY(rg_choice_forgets() ? RG_OK : rg_choice_put(choice));
  }
  *by = rg_choice_by(choice);
  return rg_choice_write_down(choice);
}

int32_t rg_conv_foreseen(const rg_call *call, rg_tensor *const *out)
{
  bool able[RG_WAYS];
  rg_choice choice;

  if (!rg_choice_pinned() && rg_choice_rounds() > 0) {
    return RG_CONV_AUTO;
  }
  ways_of(call, out, able);
  const int32_t expected = rg_conv_expected(call, out, able);

  if (rg_choice_pinned()) {
    return expected;
  }
  key_of(call, out, &choice);
  choice.path = choice.standard = expected;
  return rg_choice_known(&choice) && choice.path < RG_CONV_COUNT && able[choice.path] ? choice.path
                                                                                      : expected;
}

rg_status rg_conv_choose(const rg_call *call, rg_tensor *const *out, bool stays, rg_choice *choice,
                         int32_t *by)
{
  return choose(call, out, stays, rg_choice_pinned() ? 0 : rg_choice_rounds(), choice, by);
}

rg_status rg_conv_chosen(const rg_call *call, rg_tensor *const *out, rg_choice *choice, int32_t *by)
{
  return choose(call, out, false, 0, choice, by);
}

const char *rg_conv_way_name(int32_t way)
{
  static const char *const names[RG_CONV_COUNT] = { "auto",  "blocked", "plain",
                                                    "tiles", "product", "implicit" };

  return way >= 0 && way < RG_CONV_COUNT ? names[way] : "?";
}
