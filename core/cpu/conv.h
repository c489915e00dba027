/* SPDX-License-Identifier: MIT */
/*
** Ways of convolutions, which of them is taken, and convolutions in pieces.
*/
#ifndef RIDGE_CPU_CONV_H
#define RIDGE_CPU_CONV_H

#include "cpu/choice.h"
#include "op/conv.h"

/* conv2d, conv2d_back_data or conv2d_back_weight in f64, any layout and strides. */
rg_status rg_conv2d_direct(const rg_call *call, rg_tensor *const *out) RG_CHECK;

/* By oneDNN; way: RG_CONV_BLOCKED or RG_CONV_PLAIN.  RG_ENOSUP where it has no kernel for the one
** that is not the standard way of a layout.  finite: as of rg_conv_few, of kernels that multiply by
** the padding's zeros; for gradients of weights it is dy that has to be. */
rg_status rg_conv_dnnl(const rg_call *call, rg_tensor *const *out, rg_frame *frame, int32_t way,
                       bool adds, bool *finite) RG_CHECK;
bool rg_conv_dnnl_reads(int32_t dtype);

/* Does it read such images in place without harm? */
bool rg_conv_dnnl_is_plain(const rg_call *call);

static inline int32_t rg_conv_dnnl_standard(const rg_call *call)
{
  const rg_conv2d_args *args = call->args;

  return args->o.layout == RG_NHWC && rg_conv_dnnl_is_plain(call) ? RG_CONV_PLAIN : RG_CONV_BLOCKED;
}

/* As a matrix product: kernels of 1 x 1, stride 1, no padding, in f32 or bf16, contiguous. */
bool rg_conv_is_product(const rg_call *call, rg_tensor *const *out);
rg_status rg_conv_product(const rg_call *call, rg_tensor *const *out, rg_frame *frame,
                          bool adds) RG_CHECK;

/* As a product whose rows are gathered by pointers: a conv2d in f32 with channels last, contiguous,
** where vectors have eight numbers.  finite: as of rg_conv_few. */
bool rg_conv_may_be_implicit(const rg_call *call, rg_tensor *const *out);
rg_status rg_conv_implicit(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool adds,
                           bool *finite) RG_CHECK;
rg_status rg_conv_implicit_foresee(const rg_call *call, rg_tensor *const *out) RG_CHECK;

/* By a way, RG_CONV_...  RG_ENOSUP: it cannot do it, and has written nothing.  adds: a conv2d, to
** what lies in the result, which is contiguous and of a type that oneDNN reads; before the
** activation. */
rg_status rg_conv_by(const rg_call *call, rg_tensor *const *out, rg_frame *frame, int32_t way,
                     bool adds) RG_CHECK;

/* A conv2d, eager or a plan's step, by the way that is chosen; adds: as above. */
rg_status rg_conv_go(const rg_call *call, rg_tensor *const *out, rg_frame *frame,
                     bool adds) RG_CHECK;

/* The same beside the result, in memory of its own, and then added to r: what no way does by
** itself.  r may lie in the memory of the result. */
rg_status rg_conv_apart(const rg_call *call, const rg_tensor *r, rg_tensor *out) RG_CHECK;

/* Ask for what the way that will be taken works in, and give it back; where that is measured first,
** nothing. */
rg_status rg_conv_foresee(const rg_call *call, rg_tensor *const *out) RG_CHECK;
rg_status rg_conv_add_foresee(const rg_call *call, rg_tensor *const *out);
rg_status rg_conv_dnnl_foresee(const rg_call *call, rg_tensor *const *out, int32_t way) RG_CHECK;

/* The way of a plan's step that has not run; RG_CONV_AUTO: it will be measured. */
int32_t rg_conv_foreseen(const rg_call *call, rg_tensor *const *out);

/* The way that is taken where nothing was measured; and what is taken, with what chose it (RG_BY_).
** stays: in a plan's step. */
int32_t rg_conv_standard(const rg_call *call, rg_tensor *const *out);
rg_status rg_conv_choose(const rg_call *call, rg_tensor *const *out, bool stays, rg_choice *choice,
                         int32_t *by) RG_CHECK;

/* What was chosen, without measuring, which would write to the result again and again. */
rg_status rg_conv_chosen(const rg_call *call, rg_tensor *const *out, rg_choice *choice,
                         int32_t *by) RG_CHECK;

/* Can conv_few do this conv2d or conv2d_back_data?  With stride 1, in f32 and NCHW, contiguous. */
bool rg_conv_may_be_few(const rg_call *call, rg_tensor *const *out);

/* Are tiles channels first no slower than oneDNN channels last?  Of few channels. */
bool rg_conv_is_few(const rg_call *call, rg_tensor *const *out);

/* It, by tiles over images with their padding around them.  finite: false, and nothing is written,
** where a weight is inf or nan, which times the padding's zeros would be nan. */
rg_status rg_conv_few(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool adds,
                      bool *finite) RG_CHECK;

/*
** oneDNN is one call that never looks at Ctrl-C.  One that takes it long is cut: into some images
** at a time, or, where that is one image or a sum over all of them, into some channels of the
** result, or some groups of channels; and where few channels take long, into bands of rows and
** columns of the result.
*/
typedef struct rg_conv_piece {
  rg_call call;
  rg_conv2d_args args; /* its own groups and padding */
  const rg_tensor *in[3];
  rg_tensor *out[2];
  rg_tensor in_part[3];
  rg_tensor out_part[2];
} rg_conv_piece;

/* Along which axis each tensor of a call is cut; -1: it is not. */
typedef struct rg_conv_cut {
  int32_t in[3];
  int32_t out[2];
  int64_t size; /* how many images, channels or groups the axes have */
  int64_t step; /* how many of them a piece has */
  bool groups;
  int64_t bands[2]; /* of rows and of columns into which each of those is cut */
} rg_conv_cut;

/* How a call is cut; one piece where it is short. */
rg_conv_cut rg_conv_cut_of(const rg_call *call, rg_tensor *const *out);

/* How many pieces there are. */
int64_t rg_conv_count_pieces(const rg_conv_cut *c);

/* Piece k of a call, from 0; p stays where it is. */
void rg_conv_take_piece(rg_conv_piece *p, const rg_call *call, rg_tensor *const *out,
                        const rg_conv_cut *c, int64_t k);

#endif
