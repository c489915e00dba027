/* SPDX-License-Identifier: MIT */
/*
** What the files here know of each other.
*/
#ifndef RIDGE_IO_IO_H
#define RIDGE_IO_IO_H

#include "ridge/onnx.h"

/* Kinds of values on the wire (protobuf.dev, "Encoding"). */
enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

/* The field of a message that has a number in the file; -1: none. */
int32_t rg_onnx_find(int32_t message, int32_t number);

/* How a single value of a kind stands on the wire. */
int32_t rg_onnx_wire(int32_t kind);

/* Bytes of a file from at on, all of them.  RG_EFORMAT: it ends before; RG_EIO, RG_EINTR. */
rg_status rg_io_read(int32_t file, int64_t at, char *out, int64_t bytes) RG_CHECK;

/* Read count elements of a type from a byte of a file on.  RG_EFORMAT, RG_EIO, RG_EINTR. */
rg_status rg_onnx_elements(int32_t file, int64_t at, int32_t type, int64_t count,
                           void *out) RG_CHECK;

/* A tensor for the elements of t, in the type they are read as; t->type is one.  RG_EDTYPE ... */
rg_status rg_onnx_room(const rg_onnx_tensor *t, rg_tensor **out) RG_CHECK;

/* n elements of a type, as raw_data holds them, to the type of ridge that they are read as: out's
** elements from first on. */
rg_status rg_onnx_widen(int32_t type, const char *raw, int64_t n, int64_t first,
                        char *out) RG_CHECK;

#endif
