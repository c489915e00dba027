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
  if type(x) == 'string' then return (('%q'):format(x):gsub('\n', 'n')) end
  return type(x) == 'number' and ('%.17g'):format(x) or tostring(x)
end

local function grad_mode()
  local on = C.rg_grad_mode(1)
  C.rg_grad_mode(on)
  return on
end

local function share(x, y) return C.rg_tensor_same_storage(x._t, y._t) == 1 end

-- Do two tensors that lie in one memory have the same elements of it?
local function is_one(x, y)
  return x._t._data == y._t._data and x.dtype == y.dtype
    and table.concat(x.shape, ',') == table.concat(y.shape, ',')
    and table.concat(x.stride, ',') == table.concat(y.stride, ',')
end

-- For each tensor that lies where an earlier argument lies: that one's number, and ~ where they are
-- not the same elements.  What a function computes may depend on it where it writes.
local function sharing(args)
  local list = {}
  for i = 2, args.n do
    local x = args[i]
    for k = 1, ref.is(x) and i - 1 or 0 do
      if ref.is(args[k]) and share(args[k], x) then
        list[#list + 1] = ('%d%s%d'):format(k, is_one(args[k], x) and '=' or '~', i)
        break
      end
    end
  end
  return table.concat(list, ' ')
end

--- The key of a call.
---@param ... any the call's arguments
---@return string
function M.key(...)
  local parts, args = {}, { n = select('#', ...), ... }
  for i = 1, args.n do parts[i] = key_of_one(i, args[i]) end
  return ('%s|%d%d%s%s%s'):format(table.concat(parts, ' '), grad_mode(), C.rg_autocast(),
    mode.infers() and 'i' or '', M.want_gradients(args) and 'g' or '', sharing(args))
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

-- The copy of an earlier argument that is the same tensor.
local function copied(list, args, i)
  for k = 1, i - 1 do
    if ref.is(args[k]) and share(args[k], args[i]) and is_one(args[k], args[i]) then
      return list[k]
    end
  end
end

--- Copies of the tensors among arguments, which a plan reads, one where two are the same; all else
--- as it is.
---@param args table list with n
---@return table list with n
function M.copies(args)
  local list = { n = args.n }
  for i = 1, args.n do
    list[i] = ref.is(args[i]) and (copied(list, args, i) or args[i]:detach():clone()) or args[i]
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

--- Does a graph write to memory that one of the arguments sees, and its copy does not?
---@param graph table
---@param copies table that it was recorded with
---@param args table
---@return string|nil which
function M.unseen(graph, copies, args)
  for i = 1, args.n do
    for k = 1, ref.is(args[i]) and args.n or 0 do
      if k ~= i and ref.is(args[k]) and share(args[i], args[k])
        and not share(copies[i], copies[k]) and next(M.written(graph, copies)) then
        return ('arguments %d and %d are views of one memory, and it writes to an argument'):format(
          math.min(i, k), math.max(i, k))
      end
    end
    for _, value in ipairs(graph:states()) do
      local pointer = C.rg_graph_bound(graph._p, value.id)
      if ref.is(args[i]) and pointer ~= nil
        and C.rg_tensor_same_storage(pointer, args[i]._t) == 1 then
        return ('it writes to the memory of its argument %d by another name'):format(i)
      end
    end
  end
end

--- Does a graph leave anything but what it wrote to copies of arguments: other states, gradients?
---@param graph table
---@param copies table
---@return boolean
function M.leaves(graph, copies)
  for _, output in ipairs(graph:outputs()) do
    if output.kind == 'gradient' then return true end
  end
  for _, value in ipairs(graph:states()) do
    local pointer, is_copy = C.rg_graph_bound(graph._p, value.id), false
    for i = 1, pointer ~= nil and copies.n or 0 do
      is_copy = is_copy or ref.is(copies[i])
        and C.rg_tensor_same_storage(pointer, copies[i]._t) == 1
    end
    if not is_copy then return true end
  end
  return false
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
