-- SPDX-License-Identifier: MIT
--- One step of a net, forward and back, that leaves nothing behind: not in its parameters, running
--- statistics, gradients, modes and fields, not in its inputs, nor in streams of random numbers.

local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local grad = require 'ridge.tensor.grad'
local hooks = require 'ridge.tensor.leaf_hooks'
local memory = require 'ridge.memory'
local mode = require 'ridge.tensor.mode'
local recompute = require 'ridge.tensor.recompute'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'

local M = {}

local function now() return tonumber(C.rg_clock_ns()) end

--- Call f with each tensor in a value, those in tables too, each table once.
---@param value any
---@param f function
---@param seen table|nil
function M.each_tensor(value, f, seen)
  seen = seen or {}
  if ref.is(value) then
    f(value)
  elseif type(value) == 'table' and not getmetatable(value) and not seen[value] then
    seen[value] = true
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do M.each_tensor(value[key], f, seen) end
  end
end

-- -- What is put back -------------------------------------------------------------------------

local function modules_of(net, list, seen)
  if not seen[net] then
    seen[net] = true
    list[#list + 1] = net
    for _, child in ipairs(net.children) do modules_of(child.module, list, seen) end
  end
  return list
end

local function fields_of(module)
  local fields = {}
  for key, value in next, module do fields[key] = value end
  return fields
end

-- Tensors that a step may write to: what is not trained, and the inputs.
local function copies_of(net, args)
  local list, seen = {}, {}
  local function add(x)
    local key = tostring(x._t)
    if not seen[key] and x._t ~= nil then
      seen[key] = true
      list[#list + 1] = { tensor = x, version = C.rg_tensor_version(x._t),
        copy = memory.keep(x:detach():clone()) }
    end
  end
  for _, place in ipairs(mode.places(net)) do
    if not mode.is_learned(place) then add(place.tensor) end
  end
  M.each_tensor({ unpack(args, 1, args.n) }, add)
  return list
end

-- The entry's net and args.
local UNCHANGED = {}

function UNCHANGED.on(entry)
  if entry.copies then return end
  entry.copies = grad.no_grad(copies_of, entry.net, entry.args)
  entry.modules, entry.trained = {}, {}
  for i, module in ipairs(modules_of(entry.net, {}, {})) do
    entry.modules[i] = { module = module, fields = fields_of(module) }
  end
  for _, place in ipairs(mode.places(entry.net)) do
    if mode.is_learned(place) then
      table.insert(entry.trained, { place = place, version = C.rg_tensor_version(place.tensor._t) })
    end
  end
end

function UNCHANGED.off() end -- it waits: what it wrote is put back at its end

function UNCHANGED.stop(entry)
  for _, was in ipairs(entry.modules) do
    for key in pairs(fields_of(was.module)) do
      if was.fields[key] == nil then rawset(was.module, key, nil) end
    end
    for key, value in pairs(was.fields) do
      if rawget(was.module, key) ~= value then rawset(was.module, key, value) end
    end
  end
  grad.no_grad(function()
    for _, c in ipairs(entry.copies) do
      if C.rg_tensor_version(c.tensor._t) ~= c.version then c.tensor:copy_(c.copy) end
      c.copy:release()
    end
  end)
  for _, t in ipairs(entry.trained) do
    if C.rg_tensor_version(t.place.tensor._t) ~= t.version then
      entry.wrote = entry.wrote or t.place.name
    end
  end
end

--- Call a function that runs steps of a net, and put back what they changed. A parameter that is
--- trained and that forward itself writes to is not: there is no copy of it.
---@param net table module
---@param args table n, its arguments
---@param f function
---@param ... any its arguments
---@return any what f returns
---@return string|nil wrote name of a trained parameter that was written to
function M.unchanged(net, args, f, ...)
  local entry = { net = net, args = args }
  local result = state.with(UNCHANGED, entry, recompute.undrawn, f, ...)
  return result, entry.wrote
end

-- -- A step -----------------------------------------------------------------------------------

--- The sum of all that gradient flows through.
---@param results table n, what a net returned
---@return Tensor|nil
function M.total(results)
  local sum
  M.each_tensor({ unpack(results, 1, results.n) }, function(y)
    if y.requires_grad then
      local part = y.count == 1 and y or y:sum()
      sum = sum and sum + part or part
    end
  end)
  return sum
end

local function loss_of(job, results)
  if not job.loss then return M.total(results) end
  local loss = job.loss(unpack(results, 1, results.n))
  if not ref.is(loss) or loss.count ~= 1 then
    blame.raise('analyze: option loss gives a tensor of one element, got ' .. blame.show(loss),
      'EARG', 'analyze')
  end
  return loss
end

--- The trained tensors, and inputs that require a gradient.
---@param job table net, args
---@return Tensor[]
function M.leaves(job)
  local list, seen = {}, {}
  local function add(x)
    if x.requires_grad and C.rg_grad_flows_through(x._t) == 0 and not seen[tostring(x._t)] then
      seen[tostring(x._t)] = true
      list[#list + 1] = x
    end
  end
  for _, place in ipairs(mode.places(job.net)) do add(place.tensor) end
  M.each_tensor({ unpack(job.args, 1, job.args.n) }, add)
  return list
end

-- -- Parts that are computed again --------------------------------------------------------------

-- Gradients are handed out, so that none is added to anything; where parts of the net are computed
-- again they have to be added, and are taken back.

--- A state: gradients that are added inside are taken back behind it. The entry's leaves.
M.ADDED = {}
local ADDED = M.ADDED

function ADDED.on(entry)
  if entry.grads then return end
  entry.grads = {}
  for i, x in ipairs(entry.leaves) do
    hooks.set_aside(x) -- nobody is told of these gradients
    local g = x.grad
    entry.grads[i] = g and memory.keep(grad.no_grad(g.clone, g)) or false
  end
end

function ADDED.off() end -- it waits

function ADDED.stop(entry)
  for i, x in ipairs(entry.leaves) do
    local was = entry.grads[i]
    if was then
      grad.no_grad(function() x.grad:copy_(was) end)
      was:release()
    else
      x:zero_grad()
    end
    hooks.resume(x, backward.number)
  end
end

local function recomputes(module, seen)
  if seen[module] then return false end
  seen[module] = true
  if rawget(module, 'recomputes') or rawget(module, 'segments') then return true end
  for _, child in ipairs(module.children) do
    if recomputes(child.module, seen) then return true end
  end
  return false
end

local function in_added(job, f)
  job.adds = true
  return state.with(ADDED, { leaves = M.leaves(job) }, f)
end

--- Call a function that runs steps: parts that are computed again may be in them.
---@param job table
---@param f function
---@return any what f returns, one value
function M.going_back(job, f)
  if not job.backward then return f() end
  if recomputes(job.net, {}) then return in_added(job, f) end
  local ok, result = pcall(f)
  if ok then return result end
  if blame.is_error(result) and result.code == 'ENOSUP'
    and result.message:find 'recomputed parts add' then -- ridge.recompute in a forward
    return in_added(job, f)
  end
  error(result, 0)
end

local function pack(...) return { n = select('#', ...), ... } end

local function settled(job)
  if job.device ~= 'cpu' then call.check(C.rg_device_wait(C.RG_EVERY_DEVICE)) end
  return now()
end

local function run(job, look)
  local at = {}
  local leaves = job.backward and M.leaves(job)
  call.settle() -- what the collector owes for the step before
  at[0] = settled(job)
  local results = pack(job.net(unpack(job.args, 1, job.args.n)))
  at[1] = settled(job)
  at[2], at[3] = at[1], at[1]
  if not job.backward then return at end
  local loss = loss_of(job, results)
  at[2] = settled(job)
  if not loss or not loss.requires_grad then
    blame.raise('analyze: no gradient flows through what the net returns, so there is no backward '
      .. 'pass; give backward = false', 'EARG', 'analyze')
  end
  if look then look(loss) end
  results = nil -- luacheck: ignore 311
  if job.adds then
    backward.run(loss, nil, 0)
  else
    backward.run(loss, nil, C.RG_BACKWARD_HAND_OUT, leaves)
  end
  at[3] = settled(job)
  return at
end

--- One step; everything it made is released.
---@param job table net, args, loss, backward (false: forward alone, for which nothing is recorded),
---  device
---@param look function|nil called with the loss before the backward pass
---@return table at moments: [0] begin, [1] end of forward, [2] of the loss, [3] of all
function M.run(job, look)
  local function step() return run(job, look) end
  if job.backward then return memory.scope(grad.enable_grad, step) end
  return memory.scope(grad.no_grad, step)
end

return M
