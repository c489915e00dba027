-- SPDX-License-Identifier: MIT
--- What a compiled function is called with: plans are kept by the types and shapes of tensors and
--- by whatever else decides what is computed; tensors are copied into a plan's inputs.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local mode = require 'ridge.tensor.mode'
local ref = require 'ridge.ffi.ref'

local M = {}

local PLAIN = { number = true, string = true, boolean = true, ['nil'] = true }

local function key_of_one(i, x)
  if ref.is(x) then
    ref.need(x, 'compile')
    local device = x.device ~= 'cpu' and ' ' .. x.device or ''
    return ('%s[%s]%s'):format(x.dtype, table.concat(x.shape, ','), device)
  end
  if not PLAIN[type(x)] then
    blame.raise(('compile: argument %d is %s; a compiled function takes tensors, numbers, texts '
      .. 'and booleans, and reads all else as it was when it was compiled'):format(i,
      blame.show(x)), 'EARG', 'compile')
  end
  return type(x) == 'number' and ('%.17g'):format(x) or type(x):sub(1, 1) .. tostring(x)
end

local function grad_mode()
  local on = C.rg_grad_mode(1)
  C.rg_grad_mode(on)
  return on
end

--- The key of a call.
---@param ... any the call's arguments
---@return string
function M.key(...)
  local parts = {}
  for i = 1, select('#', ...) do parts[i] = key_of_one(i, (select(i, ...))) end
  return ('%s|%d%d%s'):format(table.concat(parts, ' '), grad_mode(), C.rg_autocast(),
    mode.infers() and 'i' or '')
end

--- The part of a key that says what the arguments are, for readers.
---@param key string
---@return string
function M.size(key) return key:match '^(.*)|' end

--- Does one of the tensors require a gradient that the tape would remember?
---@param args table list with n
---@return boolean
function M.want_gradients(args)
  if grad_mode() == 0 then return false end
  for i = 1, args.n do
    if ref.is(args[i]) and args[i].requires_grad then return true end
  end
  return false
end

--- Copies of the tensors among arguments, which a plan reads; all else as it is.
---@param args table list with n
---@return table list with n
function M.copies(args)
  local list = { n = args.n }
  for i = 1, args.n do
    list[i] = ref.is(args[i]) and args[i]:detach():clone() or args[i]
  end
  return list
end

--- Write arguments into such copies.
---@param copies table
---@param args table
function M.fill(copies, args)
  local before, status = C.rg_grad_mode(0), 0
  for i = 1, args.n do
    if status == 0 and ref.is(args[i]) then status = C.rg_copy_(copies[i]._t, args[i]._t) end
  end
  C.rg_grad_mode(before)
  call.check(status, 'compile')
end

--- The arguments a graph writes to.
---@param graph table
---@param copies table that it was recorded with
---@return number[] their numbers
function M.written(graph, copies)
  local list, met = {}, {}
  for _, value in ipairs(graph:states()) do
    local pointer = C.rg_graph_bound(graph._p, value.id)
    for i = 1, copies.n do
      if pointer ~= nil and ref.is(copies[i]) and not met[i]
        and C.rg_tensor_same_storage(pointer, copies[i]._t) == 1 then
        met[i] = true
        list[#list + 1] = i
      end
    end
  end
  return list
end

--- Write what a recording wrote into copies into the arguments themselves.
---@param list number[] of `written`
---@param copies table
---@param args table
function M.hand_back(list, copies, args)
  local before, status = C.rg_grad_mode(0), 0
  for _, i in ipairs(list) do
    if status == 0 then status = C.rg_copy_(args[i]._t, copies[i]._t) end
  end
  C.rg_grad_mode(before)
  call.check(status, 'compile')
end

return M
