/* SPDX-License-Identifier: MIT */
/*
** A recorded call, and what the tape knows of a storage.
**
** Gradients follow memory: a storage has one gradient with the storage's own layout, a tensor's
** gradient is the same window into it, and going back over a write takes the gradient of the place,
** clears it and hands it on.  Views and writes through views need no rule of their own then
** (Griewank and Walther, Evaluating Derivatives, 2nd ed., 4.2: the adjoint of an overwrite).
**
** Who holds whom: a storage its track, a track the node that wrote it last, a node the tracks of
** its inputs and results, the nodes that wrote its inputs, and the memory that its gradient reads.
** rg_storage.saved counts the latter; when only nodes hold a storage, its track releases its
** writer, so that nothing goes round in circles.  All of it belongs to one thread.
*/
#ifndef RIDGE_GRAD_NODE_H
#define RIDGE_GRAD_NODE_H

#include "op/op.h"
#include "ridge/grad.h"

typedef struct node node;

/* Where in a storage gradients are kept: width bytes of every pitch; width 0: everywhere. */
typedef struct rg_window {
  int64_t pitch;
  int64_t first;
  int64_t width;
} rg_window;

/* A storage as the tape sees it. */
typedef struct track {
  rg_tracking hooks;
  int64_t refs;
  node *writer;      /* the last recorded call that wrote here; NULL: none */
  bool leaf;         /* a tensor that requires a gradient */
  rg_window window;  /* of a leaf: the part that requires one */
  rg_tensor *grad;   /* of a leaf: accumulated; the storage's or the window's, without gaps */
  rg_tensor *buffer; /* of a leaf: where its gradient is made (buffer.c); NULL: anywhere */
  int64_t copied;    /* bytes that were made elsewhere and copied there */
  /* in the backward pass */
  rg_tensor *flow; /* incoming gradient of this storage so far; likewise */
  bool flow_own;   /* nobody else sees flow: it may be added to */
  int64_t seen;    /* the last backward pass that listed this leaf */
  int64_t watch;   /* of a leaf: the caller's number for it, who is told (watch.c); 0: nobody */
  int64_t met;     /* the last backward pass that met it in its order (early.c), */
  int64_t last;    /* and the last place there of a call that reads or writes it */
} track;

/* Where a tensor of a call lies, and its memory where its contents are needed. */
typedef struct place {
  track *track; /* NULL: no gradient flows here */
  rg_tensor at; /* type, shape, strides; _storage is held where saved */
  int64_t storage_bytes;
  int64_t offset; /* bytes */
  uint64_t version;
  bool saved;
  bool wanted;  /* inputs: gradient flows here */
  bool over;    /* results: something tracked was there before */
  node *writer; /* inputs and results: who wrote there before this call */
} place;

struct node {
  int64_t refs;
  int64_t bytes; /* of its block */
  int64_t order; /* calls are numbered as they run */
  int64_t seen;
  rg_call call;       /* in, args: copies */
  bool spent;         /* passed, and what it had saved is gone */
  bool spoiled;       /* overwrote an input its own gradient reads */
  int64_t function;   /* whose gradient the caller computes: his number for it; else 0 */
  bool goes_back;     /* a function that runs backward passes which are part of ours */
  const char *module; /* whose call it was in, */
  const char *line;   /* and the line that made it (ridge/ring.h); NULL: not known */
  int64_t event;      /* serial of its event; -1: nobody heard it */
  int32_t n_visible;
  place *in;  /* call.n_in, then */
  place *out; /* call.n_out */
  rg_meta *in_meta;
  const rg_tensor **saved_in;
};

/* The gradient of a leaf has become another tensor, or none (leaf.c). */
void rg_grad_changed(void);

/* -- Parts of storages (window.c) -------------------------------------------------------------- */

typedef enum rg_fit { RG_FIT_INSIDE, RG_FIT_OUTSIDE, RG_FIT_ACROSS } rg_fit;

/* The window that x is in its storage; width 0 where it is all of it, or no range of columns. */
rg_window rg_window_of(const rg_tensor *x);
int64_t rg_window_bytes(const rg_window *w, int64_t storage_bytes);

/* How what has x's shape and strides, at a byte offset of the storage, lies to the window. */
rg_fit rg_window_fit(const rg_window *w, const rg_tensor *x, int64_t offset);

/* The range of one axis that is inside, the rest being outside; false where there is none. */
bool rg_window_cut(const rg_window *w, const rg_tensor *x, int64_t offset, int32_t *axis,
                   int64_t *start, int64_t *length);

/* The same elements of the gradient; inside the window only. */
rg_status rg_window_view(const rg_window *w, const rg_tensor *flow, const rg_tensor *x,
                         int64_t offset, rg_tensor **out) RG_CHECK;

/* -- Leaves (leaf.c) --------------------------------------------------------------------------- */

/* The window at x into a leaf's grad or flow; out: NULL where that is NULL, or x takes none. */
rg_status rg_leaf_view(const track *t, const rg_tensor *what, const rg_tensor *x,
                       rg_tensor **out) RG_CHECK;

/* The incoming gradient of a leaf becomes, or is added to, its gradient. */
rg_status rg_leaf_keep(track *t) RG_CHECK;

/* The elements of one leaf's gradient into another one of it, whatever shapes they have. */
rg_status rg_leaf_copy(rg_tensor *to, const rg_tensor *from) RG_CHECK;

/* -- Buffers of gradients (buffer.c) ----------------------------------------------------------- */

/* Whether this thread's passes make gradients in buffers; what it was before. */
bool rg_buffers_use(bool on);

/* The buffer of p's leaf where nothing is in it yet and a gradient may be made there, else NULL. */
rg_tensor *rg_buffer_free(const place *p);

/* -- What flows (flow.c) --------------------------------------------------------------------- */

/* The window at p into the gradient of its storage so far. */
rg_status rg_flow_window(const place *p, rg_tensor **out) RG_CHECK;
void rg_flow_set(track *t, rg_tensor *flow, bool own);

/* Make sure that flow is there and may be written to. */
rg_status rg_flow_own(const place *p) RG_CHECK;

/* The same where all of p is to be written: zeros only around it. */
rg_status rg_flow_room(const place *p) RG_CHECK;

/* Where the gradient of all of p's storage is to be made; NULL: anywhere. */
rg_tensor *rg_flow_target(const place *p);

/* Add dx to the gradient at p. */
rg_status rg_flow_arrive(const place *p, rg_tensor *dx) RG_CHECK;

/* Take the accumulated gradient of a result; NULL where there is none. */
rg_status rg_flow_take(const place *p, rg_tensor **out) RG_CHECK;

/* -- Tracks and nodes -------------------------------------------------------------------------- */

/* The track of a storage, made if there is none; a borrowed reference. */
rg_status rg_track_of(rg_storage *storage, track **out) RG_CHECK;
void rg_track_release(track *t);
void rg_node_release(node *self);

/* Remember a call, as one of the caller's functions if it has a number.  goes_back: see node. */
rg_status rg_node_record(const rg_call *call, rg_tensor *const *out, int32_t save_in,
                         int64_t function, bool goes_back) RG_CHECK;

/* What the caller has a number for is gone (function.c): a function's call, or a leaf that he
** watches; nothing for 0. */
void rg_number_gone(int64_t id);

/* Release the memory a node keeps for its gradient. */
void rg_node_unsave(node *self);

/* The same of result i alone. */
void rg_node_unsave_result(node *self, int32_t i);

#endif
