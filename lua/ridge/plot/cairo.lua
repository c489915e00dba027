-- SPDX-License-Identifier: MIT
--
-- The part of Cairo that ridge draws with, declared by hand and loaded at the first picture.
--
-- The library is opened by its versioned name: the unversioned one comes only with the -dev
-- package, which a machine that draws does not need. Nothing here is called before a picture is
-- asked for, because opening Cairo costs about a millisecond and two megabytes that a sweep never
-- uses. Source: the public headers cairo.h of Cairo 1.16; all names below are part of its stable
-- ABI.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local libraries = require 'ridge.ffi.library'

local M = {}

--- Values of Cairo's enumerations, by the names used in canvas.lua.
M.FORMAT = { argb32 = 0, rgb24 = 1, a8 = 2 }
M.CAP = { butt = 0, round = 1, square = 2 }
M.JOIN = { miter = 0, round = 1, bevel = 2 }
M.ANTIALIAS_GRAY = 2
M.HINT_STYLE_SLIGHT = 2
M.HINT_METRICS_OFF = 1

local DECLARATIONS = [[
typedef struct _cairo cairo_t;
typedef struct _cairo_surface cairo_surface_t;
typedef struct _cairo_font_options cairo_font_options_t;
typedef struct {
  double x_bearing, y_bearing, width, height, x_advance, y_advance;
} cairo_text_extents_t;
typedef struct { double xx, yx, xy, yy, x0, y0; } cairo_matrix_t;

const char *cairo_status_to_string(int status);

cairo_surface_t *cairo_image_surface_create(int format, int width, int height);
cairo_surface_t *cairo_image_surface_create_from_png(const char *path);
unsigned char *cairo_image_surface_get_data(cairo_surface_t *surface);
int cairo_image_surface_get_stride(cairo_surface_t *surface);
int cairo_image_surface_get_width(cairo_surface_t *surface);
int cairo_image_surface_get_height(cairo_surface_t *surface);
int cairo_surface_status(cairo_surface_t *surface);
void cairo_surface_flush(cairo_surface_t *surface);
void cairo_surface_mark_dirty(cairo_surface_t *surface);
void cairo_surface_destroy(cairo_surface_t *surface);

cairo_t *cairo_create(cairo_surface_t *surface);
void cairo_destroy(cairo_t *cr);
int cairo_status(cairo_t *cr);
void cairo_save(cairo_t *cr);
void cairo_restore(cairo_t *cr);
void cairo_scale(cairo_t *cr, double sx, double sy);
void cairo_translate(cairo_t *cr, double tx, double ty);
void cairo_rotate(cairo_t *cr, double angle);
void cairo_set_source_rgba(cairo_t *cr, double r, double g, double b, double a);
void cairo_set_line_width(cairo_t *cr, double width);
void cairo_set_line_cap(cairo_t *cr, int cap);
void cairo_set_line_join(cairo_t *cr, int join);
void cairo_set_dash(cairo_t *cr, const double *dashes, int n, double offset);
void cairo_new_path(cairo_t *cr);
void cairo_new_sub_path(cairo_t *cr);
void cairo_move_to(cairo_t *cr, double x, double y);
void cairo_line_to(cairo_t *cr, double x, double y);
void cairo_arc(cairo_t *cr, double x, double y, double radius, double a0, double a1);
void cairo_rectangle(cairo_t *cr, double x, double y, double w, double h);
void cairo_close_path(cairo_t *cr);
void cairo_paint(cairo_t *cr);
void cairo_stroke(cairo_t *cr);
void cairo_fill(cairo_t *cr);
void cairo_clip(cairo_t *cr);

void cairo_select_font_face(cairo_t *cr, const char *family, int slant, int weight);
void cairo_set_font_matrix(cairo_t *cr, const cairo_matrix_t *matrix);
void cairo_show_text(cairo_t *cr, const char *utf8);
void cairo_text_extents(cairo_t *cr, const char *utf8, cairo_text_extents_t *extents);
cairo_font_options_t *cairo_font_options_create(void);
void cairo_font_options_destroy(cairo_font_options_t *options);
void cairo_font_options_set_antialias(cairo_font_options_t *options, int antialias);
void cairo_font_options_set_hint_style(cairo_font_options_t *options, int style);
void cairo_font_options_set_hint_metrics(cairo_font_options_t *options, int metrics);
void cairo_set_font_options(cairo_t *cr, const cairo_font_options_t *options);
]]

local library

--- Open Cairo, once.
---@return ffi.namespace* C the library, called as C.cairo_...
function M.load()
  if library then return library end
  -- Declarations outlive the module: a reload (tests do it) must not define the structs twice.
  if not pcall(ffi.typeof, 'cairo_text_extents_t') then ffi.cdef(DECLARATIONS) end
  local lib, why = libraries.open 'libcairo.so.2'
  if not lib then
    blame.raise('drawing needs the library libcairo.so.2, which did not load ('
      .. why .. '); on Debian: apt-get install libcairo2', 'ENOSUP')
  end
  library = lib
  return library
end

--- Raise with Cairo's own sentence unless a status says that all went well.
---@param status integer what cairo_status or cairo_surface_status returned
---@param doing string what was being done, for the message
function M.check(status, doing)
  if status ~= 0 then
    blame.raise(doing .. ': ' .. ffi.string(M.load().cairo_status_to_string(status)), 'ESYS')
  end
end

return M
