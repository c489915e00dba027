/* SPDX-License-Identifier: MIT */
/*
** Convolutions and their gradients on the CPU: by oneDNN (conv_dnnl.c), by tiles (conv_few.c), as
** matrix products (conv_product.c, conv_implicit.c), whichever conv_choice.c says; f64 in a loop of
** our own (conv_direct.c).
*/
#include "cpu/conv.h"
#include "cpu/cpu.h"

/* In f64, whatever the type is.  For images without elements, where what padding alone gives is the
** bias, and a gradient of the bias is there all the same; and for weights that are not finite. */
static rg_status run_exact(const rg_call *call, rg_tensor *const *out)
{
  rg_tensor wide[2];
  rg_tensor *to[2] = { &wide[0], &wide[1] };
  rg_block block[2] = { { 0 }, { 0 } };
  rg_status status = RG_OK;

  for (int32_t i = 0; i < call->n_out && status == RG_OK; i++) {
    int64_t stride = 1;

    wide[i] = *out[i];
    wide[i]._dtype = RG_F64;
    wide[i]._flags = RG_TENSOR_CONTIGUOUS;
    for (int32_t k = out[i]->_ndim - 1; k >= 0; k--) {
      wide[i]._stride[k] = stride;
      stride *= out[i]->_shape[k];
    }
    status = rg_block_alloc(RG_CPU, rg_max_i64(64, out[i]->_count * 8), &block[i]);
    wide[i]._data = block[i].data;
  }
  if (status == RG_OK) {
    status = rg_conv2d_direct(call, to);
  }
  for (int32_t i = 0; i < call->n_out && status == RG_OK; i++) {
    status = rg_cpu_convert(out[i], &wide[i]);
  }
  for (int32_t i = call->n_out - 1; i >= 0; i--) {
    if (block[i].data != NULL) {
      rg_block_free(&block[i]);
    }
  }
  return status;
}

rg_status rg_conv_by(const rg_call *call, rg_tensor *const *out, rg_frame *frame, int32_t way,
                     bool adds)
{
  bool finite = true;

  if (way == RG_CONV_PRODUCT) {
    return rg_conv_product(call, out, frame, adds);
  }
  if (way == RG_CONV_TILES) {
    frame->path = "tiles";
    RG_TRY(rg_conv_few(call, out, frame, adds, &finite));
  } else if (way == RG_CONV_IMPLICIT) {
    frame->path = "implicit";
    RG_TRY(rg_conv_implicit(call, out, frame, adds, &finite));
  } else {
    RG_TRY(rg_conv_dnnl(call, out, frame, way, adds, &finite));
  }
  return finite ? RG_OK : adds ? rg_conv_apart(call, out[0], out[0]) : run_exact(call, out);
}

/* An eager call, by the layout's way where the other has no kernel. */
static rg_status by_or_layout(const rg_call *call, rg_tensor *const *out, rg_frame *frame,
                              int32_t way, bool adds)
{
  rg_status status = rg_conv_by(call, out, frame, way, adds);

  return status == RG_ENOSUP && way != rg_conv_dnnl_standard(call)
             ? rg_conv_by(call, out, frame, rg_conv_dnnl_standard(call), adds)
             : status;
}

/* A plan's step: the way that was taken when it first ran, and what that way keeps. */
typedef struct step {
  rg_memo memo;
  rg_choice choice;
  int32_t by;
  bool adds;
  rg_memo *inner;
} step;

static void forget(step *s)
{
  if (s->inner != NULL) {
    s->inner->release(s->inner);
    s->inner = NULL;
  }
}

static void release(rg_memo *memo)
{
  forget((step *)memo);
  rg_host_free(memo);
}

/* Who turns `deterministic` on in the process means the plans there are, too. */
static bool leaves(const step *s)
{
  return s->choice.standard != RG_CONV_AUTO && s->choice.path != s->choice.standard &&
         rg_device_modes_now()->deterministic != 0;
}

static int32_t chosen(const rg_memo *memo, int32_t i, rg_choice *out)
{
  const step *s = (const step *)memo;

  if (i > 0) {
    return RG_BY_NONE;
  }
  *out = s->choice;
  if (s->by != RG_BY_ONLY) {
    rg_choice_known(out);
  }
  out->path = leaves(s) ? s->choice.standard : s->choice.path;
  return leaves(s) ? RG_BY_PINNED : s->by;
}

static rg_status step_of(const rg_call *call, rg_frame *frame, step **out)
{
  step *s = rg_host_zeroed(sizeof(*s));

  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "%s: no memory for a step of a plan", call->op->name);
  }
  s->memo = (rg_memo){ .release = release, .chosen = chosen };
  *frame->memo = &s->memo;
  *out = s;
  return RG_OK;
}

/* By the way that was chosen; where that cannot do it here, which a choice that came from elsewhere
** may say, and which is expected where oneDNN's reasons to have no kernel are not ours, by the one
** of the layout, which can do all. */
static rg_status run(const rg_call *call, rg_tensor *const *out, rg_frame *frame, step *s,
                     rg_choice *choice, int32_t *by, bool adds)
{
  rg_frame inner = { .scratch = frame->scratch, .memo = s != NULL ? &s->inner : NULL, .path = "" };
  rg_status status = rg_conv_by(call, out, &inner, choice->path, adds);

  if (status == RG_ENOSUP && choice->path != rg_conv_dnnl_standard(call)) {
    if (s != NULL) {
      forget(s);
    }
    choice->path = choice->standard = rg_conv_dnnl_standard(call);
    *by = RG_BY_EXPECTED;
    status = rg_conv_by(call, out, &inner, choice->path, adds);
  }
  frame->path = inner.path;
  return status;
}

static rg_status again(const rg_call *call, rg_tensor *const *out, rg_frame *frame, step *s)
{
  if (leaves(s)) {
    rg_frame once = { .scratch = frame->scratch, .path = "" };

    return by_or_layout(call, out, &once, s->choice.standard, s->adds);
  }
  return run(call, out, frame, s, &s->choice, &s->by, s->adds);
}

rg_status rg_conv_go(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool adds)
{
  if (call->in[0]->_count == 0 || call->in[1]->_count == 0 || out[0]->_count == 0) {
    frame->path = "direct";
    return run_exact(call, out);
  }
  if (out[0]->_dtype == RG_F64) {
    frame->path = "direct";
    return rg_conv2d_direct(call, out);
  }
  if (frame->memo != NULL) {
    step *s = (step *)*frame->memo;

    if (s != NULL && s->by != RG_BY_NONE) {
      return again(call, out, frame, s);
    }
    if (s == NULL) {
      RG_TRY(step_of(call, frame, &s));
    }
    s->adds = adds;
    RG_TRY(adds ? rg_conv_chosen(call, out, &s->choice, &s->by)
                : rg_conv_choose(call, out, true, &s->choice, &s->by));
    return run(call, out, frame, s, &s->choice, &s->by, adds);
  }
  if (atomic_load_explicit(&rg_choices_matter, memory_order_relaxed) == 0) {
    return by_or_layout(call, out, frame, rg_conv_standard(call, out), adds);
  }
  rg_choice choice;
  int32_t by;

  RG_TRY(adds ? rg_conv_chosen(call, out, &choice, &by)
              : rg_conv_choose(call, out, false, &choice, &by));
  return run(call, out, frame, NULL, &choice, &by, adds);
}

rg_status rg_conv_foresee(const rg_call *call, rg_tensor *const *out)
{
  if (call->in[0]->_count == 0 || call->in[1]->_count == 0 || out[0]->_count == 0 ||
      out[0]->_dtype == RG_F64) {
    return RG_OK;
  }
  const int32_t way = rg_conv_foreseen(call, out);

  if (way == RG_CONV_IMPLICIT) {
    return rg_conv_implicit_foresee(call, out);
  }
  if (way != RG_CONV_BLOCKED && way != RG_CONV_PLAIN) {
    return RG_OK;
  }
  rg_status status = rg_conv_dnnl_foresee(call, out, way);

  if (status == RG_ENOSUP) {
    status = rg_conv_dnnl_foresee(call, out, rg_conv_dnnl_standard(call));
  }
  return status == RG_ENOSUP ? RG_OK : status; /* the first run says what is wrong */
}

rg_status rg_cpu_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_conv_go(call, out, frame, false);
}

rg_status rg_cpu_conv2d_back_data(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_conv_go(call, out, frame, false);
}

rg_status rg_cpu_conv2d_back_weight(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  return rg_conv_go(call, out, frame, false);
}
