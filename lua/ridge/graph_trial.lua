-- SPDX-License-Identifier: MIT
--- Runs of plans that leave no trace: what they write and draw is put back, and what came out is
--- compared.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'

local M = {}

-- A copy into a tensor that may want gradients.
local function write(x, values)
  local before = C.rg_grad_mode(0)
  local status = C.rg_copy_(x._t, values._t)
  C.rg_grad_mode(before)
  call.check(status, 'graph')
end

local function copy_of(x) return x:detach():clone() end

-- The tensors that a graph writes to and that outlive it: states, and gradients of parameters.
local function written(graph)
  local list, met = {}, {}
  local function add(x)
    local id = tostring(x._t)
    if not met[id] then
      met[id] = true
      list[#list + 1] = x
    end
  end
  for _, value in ipairs(graph:states()) do
    local pointer = C.rg_graph_bound(graph._p, value.id)
    if pointer ~= nil then
      C.rg_tensor_retain(pointer)
      add(ref.wrap(pointer))
    end
  end
  return list
end

-- Parameters of a graph's modules, each once.
local function parameters_of(graph)
  local list, met = {}, {}
  for _, place in ipairs(graph._made and graph._made.places or {}) do
    local id = tostring(place.tensor._t)
    if not met[id] then
      met[id] = true
      list[#list + 1] = place.tensor
    end
  end
  return list
end

-- The tensor that is a parameter's gradient, held; the parameter is left with another one, or none.
local function exchange(x, grad)
  local slot = ffi.new 'rg_tensor *[1]'
  call.check(C.rg_grad_exchange(x._t, grad and grad._t or nil, slot), 'graph')
  local was = slot[0]
  return was ~= nil and ref.wrap(was) or nil
end

local function gradient_of(x)
  local grad = exchange(x, nil)
  if grad then exchange(x, grad) end
  return grad
end

--- Remember what runs of a graph's plans may change: its states, gradients, streams of numbers.
---@param graph table
---@param generators table|nil streams besides the default one
---@return table saved
function M.save(graph, generators)
  local saved = { tensors = written(graph), copies = {}, streams = { random.default() }, at = {},
    parameters = parameters_of(graph), gradients = {}, gradient_copies = {} }
  for i, x in ipairs(saved.tensors) do saved.copies[i] = copy_of(x) end
  for i, x in ipairs(saved.parameters) do
    local grad = gradient_of(x)
    saved.gradients[i] = grad or false
    saved.gradient_copies[i] = grad and copy_of(grad) or false
  end
  for _, generator in ipairs(generators or {}) do
    saved.streams[#saved.streams + 1] = generator
  end
  for i, stream in ipairs(saved.streams) do saved.at[i] = stream:state() end
  return saved
end

--- Put it back.
---@param saved table
function M.restore(saved)
  for i, x in ipairs(saved.tensors) do write(x, saved.copies[i]) end
  for i, grad in ipairs(saved.gradients) do
    if grad then write(grad, saved.gradient_copies[i]) end
  end
  for i, stream in ipairs(saved.streams) do stream:load_state(saved.at[i]) end
end

-- Is a value a table of tensors, as functions return them?
local function is_table(value)
  return type(value) == 'table' and not getmetatable(value)
end

--- What a function returned, each tensor in it replaced by f of it.
---@param value any
---@param f function
---@param met table|nil tables that were met
---@return any
function M.map(value, f, met)
  if ref.is(value) then return f(value) end
  if not is_table(value) then return value end
  met = met or {}
  if not met[value] then
    local copy = {}
    met[value] = copy
    for key, field in pairs(value) do copy[key] = M.map(field, f, met) end
  end
  return met[value]
end

--- All that came out of a run: copies of the tensors it returned, of those it wrote and of the
--- gradients it left.
---@param saved table
---@param results table what was returned, with n
---@return Tensor[] list
function M.outcome(saved, results)
  local list, met = {}, {}
  local function add(value)
    if ref.is(value) then
      list[#list + 1] = copy_of(value)
    elseif is_table(value) and not met[value] then
      met[value] = true
      local keys = {}
      for key in pairs(value) do keys[#keys + 1] = key end
      table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
      for _, key in ipairs(keys) do add(value[key]) end
    end
  end
  for i = 1, results.n do add(results[i]) end
  for _, x in ipairs(saved.tensors) do add(x) end
  for _, x in ipairs(saved.parameters) do add(gradient_of(x)) end
  return list
end

local function bytes_of(x)
  local whole = x:contiguous():to 'cpu'
  return ffi.string(ffi.cast('const char *', whole._t._data), whole.bytes)
end

-- The largest difference of two tensors over the largest number there; nan and infinities have to
-- be in the same places, or it is infinite.
local function distance(a, b)
  local p, q = a:to('cpu'):to 'f64', b:to('cpu'):to 'f64'
  local finite = (p - p):eq(0)
  if not finite:equal((q - q):eq(0)) then return math.huge end
  local keep = finite:to 'f64'
  local odd = 1 - keep -- nan is where nan is, and each infinity where that is
  if (odd:sum():item() > 0)
    and not (bytes_of(p:eq(p)) == bytes_of(q:eq(q)) and bytes_of(p:eq(math.huge))
      == bytes_of(q:eq(math.huge))) then
    return math.huge
  end
  local most = 0
  local size = 1e-300
  local flat_p, flat_q, flat = p:reshape(-1), q:reshape(-1), finite:reshape(-1)
  if odd:sum():item() == 0 then
    most = (p - q):abs():max():item()
    size = math.max(size, p:abs():max():item())
  else
    for i = 1, flat.count do
      if flat[i]:item() ~= 0 then
        local u, v = flat_p[i]:item(), flat_q[i]:item()
        most = math.max(most, math.abs(u - v))
        size = math.max(size, math.abs(u))
      end
    end
  end
  return most == 0 and 0 or most / size
end

--- How far two outcomes are from each other.
---@param a Tensor[] as `outcome` gives them
---@param b Tensor[]
---@return boolean same the same bits
---@return number difference the largest, over the largest number of that tensor; infinite where one
---  has another type, shape, or nan in other places
function M.difference(a, b)
  local same, most = #a == #b, #a == #b and 0 or math.huge
  for i = 1, math.min(#a, #b) do
    local x, y = a[i], b[i]
    if x.dtype ~= y.dtype or table.concat(x.shape, ',') ~= table.concat(y.shape, ',') then
      return false, math.huge
    end
    if bytes_of(x) ~= bytes_of(y) then
      same = false
      most = math.max(most, distance(x, y))
    end
  end
  return same, most
end

return M
