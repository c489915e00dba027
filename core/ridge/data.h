/* SPDX-License-Identifier: MIT */
/*
** Loading: files as memory, and threads that gather the rows of batches while others compute.
*/
#ifndef RIDGE_DATA_H
#define RIDGE_DATA_H

#include "ridge/tensor.h"

/* A file that is mapped into memory, for reading. */
typedef struct rg_map {
  const char *_data;
  int64_t _bytes; /* when it was opened */
  int32_t _file;  /* descriptor */
  int32_t _pad;
} rg_map;

/* Map a file.  path: of a regular file; out: to be released.  RG_EIO, RG_ENOMEM. */
RG_API rg_status rg_map_open(const char *path, rg_map **out) RG_CHECK;
RG_API rg_map *rg_map_retain(rg_map *map);
RG_API void rg_map_release(rg_map *map);

/* Which numbers rg_decimals takes. */
typedef struct rg_decimal {
  double least; /* and greatest: what the type holds */
  double greatest;
  double largest_whole; /* of those without a point or exponent, without their sign */
  double largest;       /* of the others */
  int32_t whole;        /* only whole ones, however they are written */
  char separator;
  char _pad[3];
} rg_decimal;

/*
** The numbers of a line of text, correctly rounded, where all of it is plain decimal numbers of at
** most 15 digits between separators: how many there are.  Below 0: it holds anything else, more
** than most, or a number that `how` does not take; out may be written then.
**
** line   bytes characters, without the end of the line
*/
RG_API int32_t rg_decimals(const char *line, int64_t bytes, const rg_decimal *how, double *out,
                           int32_t most);

/* Rows of numbers side by side, in memory or in a mapped file, which may become shorter. */
typedef struct rg_field {
  const void *data;  /* the first row */
  rg_tensor *tensor; /* whose data that is, or NULL; the loader holds it */
  rg_map *map;       /* the same of a mapped file */
  int64_t offset;    /* of it in the file, bytes */
  int64_t rows;
  int64_t numbers; /* in a row */
  double scale;    /* out = number * scale + shift, where out is of another type */
  double shift;
  int32_t file; /* descriptor of the mapped file, below 0: none; the caller keeps data in place */
  int32_t dtype;
  int32_t out; /* type in a batch: dtype, or f32 */
  int32_t _pad;
} rg_field;

/*
** What happens to the rows of a batch before they are handed out, in the thread that gathered them.
** Functions give 0, or anything else with a sentence in message (room bytes).
*/
typedef struct rg_transform {
  void *given;
  /* once in each thread; state: handed to the others */
  int32_t (*open)(void *given, void **state, char *message, int64_t room);
  /* fields: where each begins; index: numbers of the rows */
  int32_t (*run)(void *state, void *const *fields, const int64_t *index, int64_t rows,
                 char *message, int64_t room);
  void (*close)(void *state);
  /* once, when no thread will call the others any more; NULL: nothing to do */
  void (*drop)(void *given);
} rg_transform;

/*
** A transform that is a function in Lua (the library has it where LuaJIT is in the process).
**
** bytecode size bytes of a function f(number, row of the first field, ...) without upvalues, made
**          in this process; each thread runs it in a Lua state of its own
** types    for each field the C type of its numbers and how many a row has: "float 784;int64_t 1;"
** out      given to one loader, which drops it, or released
** RG_ENOMEM.
*/
RG_API rg_status rg_transform_new(const char *bytecode, int64_t size, const char *types,
                                  rg_transform **out) RG_CHECK;
RG_API void rg_transform_release(rg_transform *transform);

typedef struct rg_loader rg_loader;

/*
** Start threads that gather batches.
**
** fields   n of them, 1 to 8, all with the same number of rows
** workers  threads; 0: batches are gathered when somebody asks for them
** room     batches that may wait to be taken, from 1
** transform
**          NULL: none; copied
** out      to be released
** RG_EARG, RG_EDTYPE, RG_ENOMEM, RG_ESYS.
*/
RG_API rg_status rg_loader_new(const rg_field *fields, int32_t n, int32_t workers, int32_t room,
                               const rg_transform *transform, rg_loader **out) RG_CHECK;

/*
** Order a batch: those that are ordered come in the same order.
**
** loader   fewer than room batches are under way
** index    numbers of rows, from 0; count of them
** out      a tensor for each field, without gaps, [count x ...] of the field's out type
** RG_EARG, RG_ESHAPE.
*/
RG_API rg_status rg_loader_order(rg_loader *loader, const int64_t *index, int64_t count,
                                 rg_tensor *const *out) RG_CHECK;

/* Wait for the oldest batch of loader; out: filled, new references to its tensors.  RG_EARG when
** none was ordered; RG_EIO, RG_EFORMAT and what a transform says; RG_EINTR. */
RG_API rg_status rg_loader_next(rg_loader *loader, rg_tensor **out) RG_CHECK;

/* Batches that are under way in loader. */
RG_API int32_t rg_loader_waiting(const rg_loader *loader);

/* 1 if rg_loader_next would not wait: the oldest batch of loader is there, or nobody but the caller
** gathers it. */
RG_API int32_t rg_loader_ready(rg_loader *loader);

/* End the threads of loader, when they have done what they are at; batches not taken are lost.  A
** thread that is still at a row when Ctrl-C came is not waited for: the last one gives back what
** the loader holds. */
RG_API void rg_loader_release(rg_loader *loader);

#endif
