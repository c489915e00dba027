-- SPDX-License-Identifier: MIT
--- The elements of a tensor to and from somewhere else, piece by piece: it may have more bytes than
--- a string of Lua or an array of LuaJIT's can hold, and no second copy of it is made.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'

local M = {}

--- Bytes of a piece in host memory.
M.BYTES = 2 ^ 24

--- Call f with views of x one after the other, in row-major order, that are all of it together.
---@param x Tensor
---@param most number elements that a view may have, at least 1
---@param f fun(view: Tensor)
function M.each(x, most, f)
  if x.count <= most then return f(x) end
  local n = x:size(1)
  local one = x.count / n
  if one > most then
    for i = 1, n do M.each(x:select(1, i), most, f) end
    return
  end
  local rows = math.floor(most / one)
  for i = 1, n, rows do f(x:narrow(1, i, math.min(rows, n - i + 1))) end
end

-- Buffers of the host for each piece of x; go moves bytes between the two.
local function through(x, what, go)
  if x.count == 0 then return end
  local size = x.bytes / x.count
  local buffer = ffi.new('uint8_t[?]', math.min(x.bytes, M.BYTES))
  M.each(x:detach(), M.BYTES / size, function(piece)
    call.look(what)
    go(piece, buffer, piece.bytes)
  end)
end

--- Hand out the bytes of x, row-major without gaps, whatever its strides and device.
---@param x Tensor
---@param what string the function the user called, for errors
---@param take fun(buffer: cdata, bytes: number) buffer holds them until it returns
function M.read(x, what, take)
  through(x, what, function(piece, buffer, bytes)
    local gapless = piece:contiguous()
    call.check(C.rg_tensor_read(gapless._t, buffer, bytes), what)
    take(buffer, bytes)
  end)
end

--- Fill x, which has no gaps, with bytes in row-major order.
---@param x Tensor
---@param what string the function the user called, for errors
---@param give fun(buffer: cdata, bytes: number) fills the buffer
function M.write(x, what, give)
  through(x, what, function(piece, buffer, bytes)
    give(buffer, bytes)
    call.check(C.rg_tensor_write(piece._t, buffer, bytes), what)
  end)
end

return M
