-- SPDX-License-Identifier: MIT
--- Where tensors are made and calls go when nobody says it: the default device, the stream of this
--- thread, pinned memory.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local state = require 'ridge.state'

local M = {}

local default = 0

--- The device of tensors that are made without one.
---@return number
function M.default()
  return default
end

--- Set the device of tensors that are made without one.
---@param number number of a device that is open
function M.set_default(number)
  default = number
end

-- -- Streams ------------------------------------------------------------------------------

local streams = {} -- by device: how many are used

--- How many streams of a device are used: the copies ahead of a loader want a second one.
---@param device number
---@return number 1 to 8
function M.streams(device)
  return streams[device] or C.RG_STREAMS
end

--- Use so many streams of a device.
---@param device number
---@param n number
function M.set_streams(device, n)
  streams[device] = n
end

local before = ffi.new('int32_t[1]')

-- The entry's device, and the stream of it that holds inside.
local function swap(entry)
  call.check(C.rg_stream_enter(entry.device, entry.stream, before))
  entry.stream = before[0]
end
local STREAM = { on = swap, off = swap }

--- Call a function with this thread's calls for a device on one of its streams.
---@param device number
---@param stream number from 0
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.on_stream(device, stream, f, ...)
  return state.with(STREAM, { device = device, stream = stream }, f, ...)
end

-- -- Pinned memory ------------------------------------------------------------------------

--- The number under which pinned memory is asked for; the first GPU is opened for it.
---@param what string the function asking, for the error
---@return number
function M.pinned(what)
  if C.rg_device_open(1) ~= 0 then
    local why = ffi.string(C.rg_error_message()):gsub('^%l+:%d+: ', '')
    blame.raise(('%s: pinned memory is for copies to a GPU, and there is none: %s'):format(what,
      why), 'EDEVICE', what)
  end
  call.opened(1)
  return C.RG_PINNED
end

--- The number of the place that options name: device, pinned.
---@param opts table device, pinned
---@param what string the function asking, for the error
---@return number
function M.of(opts, what)
  if not opts.pinned then
    return opts.device and dtype.device(opts.device, what) or default
  end
  if opts.device and dtype.device(opts.device, what) ~= 0 then
    blame.raise(('%s: pinned memory is the CPU\'s; it cannot be on %s'):format(what, opts.device),
      'EARG', what)
  end
  return M.pinned(what)
end

return M
