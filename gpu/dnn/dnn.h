/* SPDX-License-Identifier: MIT */
/*
** cuDNN, which is asked first for convolutions and attention where it is there: what the plugin's
** other files see of it.  Without its headers the functions are still there and never take a call.
*/
#ifndef RIDGE_GPU_DNN_H
#define RIDGE_GPU_DNN_H

extern "C" {
#include "op/op.h"
}

#if __has_include(<cudnn_graph.h>)
#define RG_HAS_DNN 1
#else
#define RG_HAS_DNN 0
#endif

/* 91900 for 9.19.0.  0: there is none, or, where nobody may open it now, nobody did. */
int32_t rg_dnn_version(bool open);

/*
** One sentence for `ridge doctor`: which cuDNN is used, or why none is.  Opens the library where
** nobody has yet.  The text is valid as long as the plugin is.
*/
const char *rg_dnn_note(void);

/* What became of it since: a sentence, or empty.  The text is valid as long as the plugin is. */
const char *rg_dnn_trouble(void);

/* Plan one attention, which cuDNN compiles by NVRTC, as it does fused convolutions: a second or so.
** False: why it cannot be planned, in a few words. */
bool rg_dnn_tries(int32_t device, char *why, size_t size);

/*
** Let cuDNN do a call, out and frame as a kernel gets them.  RG_DNN_DONE: its work is on the
** device's stream, and frame->path is "cudnn".  RG_DNN_NOT: what the outputs hold is undefined, and
** ridge's own kernel has to do it, because there is no cuDNN, because it was told not to
** (rg_device_modes.vendor), or because it takes no such call.  No errors: what cuDNN cannot do is
** no news to who called.
*/
enum { RG_DNN_NOT, RG_DNN_DONE, RG_DNN_SUM };

/* RG_DNN_SUM: y is the convolution alone; bias and activation are still to come. */
int32_t rg_dnn_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
int32_t rg_dnn_conv2d_back_data(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
int32_t rg_dnn_conv2d_back_weight(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
int32_t rg_dnn_attention(const rg_call *call, rg_tensor *const *out, rg_frame *frame);
int32_t rg_dnn_attention_back(const rg_call *call, rg_tensor *const *out, rg_frame *frame);

#endif
