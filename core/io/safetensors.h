/* SPDX-License-Identifier: MIT */
/*
** A safetensors file that is open: its header, and what its tensors come from.
*/
#ifndef RIDGE_IO_SAFETENSORS_H
#define RIDGE_IO_SAFETENSORS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "io/json.h"
#include "tensor/tensor.h"

typedef struct rg_opened {
  rg_safetensors shown;
  _Atomic int64_t refs; /* one of who opened it, one for each tensor that is to come or mapped */
  pthread_mutex_t lock; /* one tensor comes at a time */
  struct stat facts;    /* when it was opened */
  char *path;
  char *header; /* its texts are in it */
  rg_safetensors_entry *entries;
  rg_header_text *notes;
  int64_t room; /* of entries */
  int64_t room_notes;
  char *map; /* private pages, NULL: not mapped */
  int file;
} rg_opened;

/* Files whose headers are longer are damaged. */
enum { RG_LONGEST_HEADER = 1 << 24 };

/* What the format calls a type of ridge's: "F32". */
const char *rg_safetensors_type(int32_t dtype);

/* Fill in dtype of an entry by its type's name; bits of an element, -1: nobody knows. */
int32_t rg_safetensors_bits(rg_safetensors_entry *entry);

/* A name as messages have it: without what moves a terminal, cut.  Returns text. */
const char *rg_shown_name(rg_header_text name, char text[64]);

/* One reference less of an open file. */
void rg_opened_release(rg_opened *self);

#endif
