-- SPDX-License-Identifier: MIT
--- What is known when a plan is made: it is computed beside the capture, which sees none of it.

local C = require 'ridge.ffi.lib'
local no_grad = require('ridge.tensor.grad').no_grad

local M = {}

local function back(plan, recording, ok, ...)
  C.rg_capture_swap(plan)
  C.rg_record_swap(recording)
  if not ok then error((...), 0) end
  return ...
end

--- Is a capture or a recording under way?
---@return boolean
function M.is_captured()
  return C.rg_capturing() == 1
end

--- Call a function as if nothing were captured: what it makes is there before the plan, and what
--- it reads is what lies in the tensors now.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.call(f, ...)
  if not M.is_captured() then return no_grad(f, ...) end
  local recording = C.rg_record_swap(nil)
  return back(C.rg_capture_swap(nil), recording, pcall(no_grad, f, ...))
end

local function numbers(x)
  local list = x:reshape(-1):tolist()
  if x.dtype == 'bool' then
    for i = 1, #list do list[i] = list[i] and 1 or 0 end
  end
  return list
end

--- The elements of a tensor in one list, as they are now; true is 1.
---@param x Tensor
---@return table
function M.numbers(x)
  return M.call(numbers, x)
end

return M
