/* SPDX-License-Identifier: MIT */
/*
** Files in the safetensors format (github.com/huggingface/safetensors): eight bytes with the length
** of a header, the header as JSON (name to type, shape and place), the elements.
**
** Reading one runs nothing, and takes no more memory than its header and the tensors asked for.
*/
#ifndef RIDGE_SAFETENSORS_H
#define RIDGE_SAFETENSORS_H

#include "ridge/tensor.h"

/* A text of a header, with its length: it may hold any byte. */
typedef struct rg_header_text {
  const char *data;
  int64_t bytes;
} rg_header_text;

/* What a header says of one tensor. */
typedef struct rg_safetensors_entry {
  rg_header_text name;
  int64_t at; /* its first byte in the file */
  int64_t bytes;
  int64_t count; /* elements */
  int32_t dtype; /* RG_F32 ...; RG_DTYPE_COUNT: ridge has no such type */
  int32_t ndim;  /* of a type that ridge has: at most RG_MAX_DIMS */
  char type[16]; /* as the file says it, cut */
  int64_t shape[8];
} rg_safetensors_entry;

/* A file whose header was read. */
typedef struct rg_safetensors {
  const rg_safetensors_entry *entries; /* in the order of their places */
  const rg_header_text *notes;         /* name, text, name, text ... */
  int64_t n;
  int64_t n_notes;
  int64_t bytes; /* of the file */
} rg_safetensors;

/* When a tensor's elements come. */
enum {
  RG_SAFETENSORS_NOW,   /* copied at once */
  RG_SAFETENSORS_LATER, /* copied when it is used first */
  RG_SAFETENSORS_MAPPED /* never: it is private pages of the file, and a file that is cut meanwhile
                        ** ends the process with SIGBUS */
};

/*
** Open a file and read its header.
**
** path     of a regular file
** out      to be released
** RG_EIO; RG_EFORMAT says what is wrong of the file, without its name ("is cut off ...");
** RG_ENOMEM.
*/
RG_API rg_status rg_safetensors_open(const char *path, rg_safetensors **out) RG_CHECK;

/*
** Read an index (model.safetensors.index.json): which file beside it has a tensor.
**
** path     of the index
** out      to be released; notes are its "weight_map", and there are no entries
** As rg_safetensors_open.
*/
RG_API rg_status rg_safetensors_index(const char *path, rg_safetensors **out) RG_CHECK;

/* The file stays open for tensors of it that are to come, or mapped.  file: NULL does nothing. */
RG_API void rg_safetensors_release(rg_safetensors *file);

/*
** One of the tensors.
**
** file     as opened
** i        its entry, from 0
** how      RG_SAFETENSORS_NOW ...; what does not lie as its type wants it is not mapped, but copied
** out      new reference, on the CPU
** RG_EDTYPE where ridge has no such type; RG_EIO; RG_EFORMAT: the file has changed; RG_ENOMEM,
** RG_EINTR.  A tensor that comes later fails in the same ways when it is used.
*/
RG_API rg_status rg_safetensors_tensor(rg_safetensors *file, int64_t i, int32_t how,
                                       rg_tensor **out) RG_CHECK;

/* 1 while the elements of x are to come. */
RG_API int32_t rg_tensor_is_later(const rg_tensor *x);

/*
** Write the header for tensors that follow in the same order.
**
** names    n of them, sorted by bytes, no two alike
** tensors  n, whose types and shapes it says
** n        how many
** notes    name, text, name, text ..., sorted by name
** n_notes  how many names
** out      written to
** RG_EARG: a text is not UTF-8; what rg_output_write says; RG_ENOMEM.
*/
RG_API rg_status rg_safetensors_head(const rg_header_text *names, rg_tensor *const *tensors,
                                     int64_t n, const rg_header_text *notes, int64_t n_notes,
                                     rg_output *out) RG_CHECK;

/* Write the elements of x as stored.  x: contiguous, on the CPU; out: behind the header and those
** before.  RG_EARG, RG_EINTR, what rg_output_write says. */
RG_API rg_status rg_safetensors_put(const rg_tensor *x, rg_output *out) RG_CHECK;

#endif
