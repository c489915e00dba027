-- SPDX-License-Identifier: MIT
--- The messages of event files (tensorboard/compat/proto: event, summary, histogram, and api.proto
--- of the hparams plugin), as bytes, and the records that hold them.

local ffi = require 'ffi'
local crc32c = require 'ridge.tensorboard.crc32c'
local pb = require 'ridge.tensorboard.protobuf'

local M = {}

local function little(ctype, n, bytes)
  return ffi.string(ffi.new(ctype .. '[1]', n), bytes)
end

--- A record: its length, its bytes, and a masked checksum of each.
---@param data string
---@return string
function M.record(data)
  local length = little('uint64_t', #data, 8)
  return length .. little('uint32_t', crc32c.masked(length), 4) .. data
    .. little('uint32_t', crc32c.masked(data), 4)
end

--- The event that a file begins with.
---@param at_s number seconds since 1970
---@return string
function M.version(at_s)
  return pb.double(1, at_s) .. pb.bytes(3, 'brain.Event:2')
end

--- An event with one value.
---@param at_s number
---@param step number
---@param value string of M.scalar and the others
---@return string
function M.summary(at_s, step, value)
  return pb.double(1, at_s) .. pb.int(2, step) .. pb.bytes(5, pb.bytes(1, value))
end

--- A number under a tag.
---@param tag string
---@param x number kept as f32
---@return string
function M.scalar(tag, x)
  return pb.text(1, tag) .. pb.float(2, x)
end

--- A picture.
---@param tag string
---@param png string the file's bytes
---@param width number pixels
---@param height number
---@return string
function M.image(tag, png, width, height)
  return pb.text(1, tag) .. pb.bytes(4, pb.int(1, height) .. pb.int(2, width) .. pb.int(3, 4)
    .. pb.bytes(4, png))
end

--- How numbers are distributed.
---@param tag string
---@param h table min, max, n, sum, squares, limits (upper ends of buckets), counts
---@return string
function M.histogram(tag, h)
  return pb.text(1, tag) .. pb.bytes(5, pb.double(1, h.min) .. pb.double(2, h.max)
    .. pb.double(3, h.n) .. pb.double(4, h.sum) .. pb.double(5, h.squares)
    .. pb.doubles(6, h.limits) .. pb.doubles(7, h.counts))
end

-- -- Parameters of runs -------------------------------------------------------------------

-- A value of google.protobuf.Value.
local function value(x)
  if type(x) == 'number' then return pb.double(2, x) end
  if type(x) == 'boolean' then return pb.int(4, x) end
  return pb.text(3, tostring(x))
end

local TYPES = { string = 1, boolean = 2, number = 3 }

-- The plugin's data is of version 0, which is not written.
local function plugin(tag, content)
  return pb.text(1, tag)
    .. pb.bytes(9, pb.bytes(1, pb.bytes(1, 'hparams') .. pb.bytes(2, content)))
end

--- Which parameters there are, what each may be, and which scalars are to be compared.
---@param params table a list of { name, values }
---@param metrics table tags of scalars
---@param at_s number
---@return string
function M.experiment(params, metrics, at_s)
  local parts = { pb.double(3, at_s) }
  for _, p in ipairs(params) do
    local domain = {}
    for i, x in ipairs(p.values) do domain[i] = pb.bytes(1, value(x)) end
    parts[#parts + 1] = pb.bytes(4, pb.text(1, p.name)
      .. pb.int(4, TYPES[type(p.values[1])] or TYPES.string)
      .. pb.bytes(5, table.concat(domain)))
  end
  for _, tag in ipairs(metrics) do
    parts[#parts + 1] = pb.bytes(5, pb.bytes(1, pb.text(2, tag)))
  end
  return plugin('_hparams_/experiment', pb.bytes(2, table.concat(parts)))
end

--- A run's parameters.
---@param params table by name
---@param group string the run's name
---@param at_s number
---@return string
function M.session(params, group, at_s)
  local names, parts = {}, {}
  for name in pairs(params) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    parts[i] = pb.bytes(1, pb.text(1, name) .. pb.bytes(2, value(params[name])))
  end
  return plugin('_hparams_/session_start_info', pb.bytes(3, table.concat(parts)
    .. pb.text(4, group) .. pb.double(5, at_s)))
end

--- How a run ended.
---@param ok boolean
---@param at_s number
---@return string
function M.ended(ok, at_s)
  return plugin('_hparams_/session_end_info', pb.bytes(4, pb.int(1, ok and 1 or 2)
    .. pb.double(2, at_s)))
end

return M
