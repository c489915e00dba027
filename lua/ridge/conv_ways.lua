-- SPDX-License-Identifier: MIT
--- Convolutions in the table of choices: what decides which way is the fastest, as a row and as
--- text. ridge.choices has the table.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local dtype = require 'ridge.tensor.dtype'

local M = {}

--- Ways by their names, in the order of RG_CONV_...
M.WAYS = {}
for code = 1, C.RG_CONV_COUNT - 1 do M.WAYS[code] = ffi.string(C.rg_conv_way_name(code)) end

local OPS = { 'conv2d', 'conv2d_back_data', 'conv2d_back_weight' } -- RG_WORK_CONV ...
local LAYOUTS = { [C.RG_NCHW] = 'nchw', [C.RG_NHWC] = 'nhwc' }
local WORK, LAYOUT, ISA, TYPE = {}, {}, {}, {}
for code, name in ipairs(OPS) do WORK[name] = code end
for code, name in pairs(LAYOUTS) do LAYOUT[name] = code end
for level = 0, C.RG_ISA_COUNT - 1 do ISA[ffi.string(C.rg_isa_name(level))] = level end
TYPE.f32, TYPE.bf16 = C.RG_F32, C.RG_BF16

local PAIRS = { 'size', 'kernel', 'stride', 'dilation', 'pad_low', 'pad_high' }
local COUNTS = { 'images', 'channels', 'outs', 'groups' }

--- A choice of the core's that is of a convolution, without its times.
---@param c cdata rg_choice
---@return table row
function M.head(c)
  local row = { op = OPS[c.work], layout = LAYOUTS[c.layout], compute = dtype.name(c.compute),
    kept = c.kept == 1, epilogue = c.epilogue == 1, threads = c.threads,
    isa = ffi.string(C.rg_isa_name(c.isa)), path = M.WAYS[c.path] }
  for _, name in ipairs(COUNTS) do row[name] = tonumber(c.conv[name]) end
  for _, name in ipairs(PAIRS) do
    row[name] = { tonumber(c.conv[name][0]), tonumber(c.conv[name][1]) }
  end
  return row
end

--- Is a row of a convolution?
---@param r table
---@return boolean
function M.is(r) return r.images ~= nil end

--- What decides which way is the fastest, as text.
---@param r table as `head` gives it
---@return string
function M.problem(r)
  local flags = (r.kept and 'k' or '') .. (r.epilogue and 'e' or '')
  return ('%s %dx%dx%dx%d o%d k%dx%d s%dx%d d%dx%d p%d,%d,%d,%d g%d %s %s %s%st%d %s'):format(r.op,
    r.images, r.channels, r.size[1], r.size[2], r.outs, r.kernel[1], r.kernel[2], r.stride[1],
    r.stride[2], r.dilation[1], r.dilation[2], r.pad_low[1], r.pad_low[2], r.pad_high[1],
    r.pad_high[2], r.groups, r.layout, r.compute, flags, flags == '' and '' or ' ', r.threads,
    r.isa)
end

local PATTERN = '^([%w_]+) (%d+)x(%d+)x(%d+)x(%d+) o(%d+) k(%d+)x(%d+) s(%d+)x(%d+) d(%d+)x(%d+) '
  .. 'p(%-?%d+),(%-?%d+),(%-?%d+),(%-?%d+) g(%d+) (%w+) (%w+) ([ke]*) ?t(%d+) ([%w_]+)$'

local MOST_SIZE, MOST_THREADS = 2 ^ 53, 1024 -- beyond, a number is not the one that was written

--- Into a choice of the core's.
---@param text string as `problem` gives it
---@param path string
---@param into cdata rg_choice, zeros
---@return cdata|nil into nil where the text is none that this ridge knows
function M.parse(text, path, into)
  local f = { text:match(PATTERN) }
  local work, layout, kind, isa = WORK[f[1] or ''], LAYOUT[f[18]], TYPE[f[19]], ISA[f[22]]
  local code
  for i, name in ipairs(M.WAYS) do code = name == path and i or code end
  if not (work and layout and kind and isa and code) then return nil end
  local n = {}
  for i = 2, 17 do
    n[i] = tonumber(f[i])
    if math.abs(n[i]) >= MOST_SIZE then return nil end
  end
  local threads = tonumber(f[21])
  if threads > MOST_THREADS then return nil end
  into.work, into.layout, into.path = work, layout, code
  into.compute, into.a_dtype, into.b_dtype, into.c_dtype = kind, kind, kind, kind
  into.kept = f[20]:find('k', 1, true) and 1 or 0
  into.epilogue = f[20]:find('e', 1, true) and 1 or 0
  into.threads, into.isa = threads, isa
  local conv = into.conv
  conv.images, conv.channels, conv.outs, conv.groups = n[2], n[3], n[6], n[17]
  local at = { size = 4, kernel = 7, stride = 9, dilation = 11, pad_low = 13, pad_high = 15 }
  for name, i in pairs(at) do
    conv[name][0], conv[name][1] = n[i], n[i + 1]
  end
  return into
end

local SHORT = { conv2d = '', conv2d_back_data = ' dx', conv2d_back_weight = ' dw' }

--- Its sizes, short: images x channels x rows x columns, results of kernels, and what is not usual.
---@param r table as `head` gives it
---@return string
function M.sizes(r)
  local more = ''
  if r.stride[1] ~= 1 or r.stride[2] ~= 1 then
    more = ('/%d'):format(math.max(r.stride[1], r.stride[2]))
  end
  if r.groups > 1 then more = ('%s g%d'):format(more, r.groups) end
  return ('%dx%dx%dx%d %d of %dx%d%s %s%s'):format(r.images, r.channels, r.size[1], r.size[2],
    r.outs, r.kernel[1], r.kernel[2], more, r.layout, SHORT[r.op])
end

return M
