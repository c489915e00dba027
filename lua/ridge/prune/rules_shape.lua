-- SPDX-License-Identifier: MIT
--- What operations that move elements do with the labels of ridge.prune.follow.

local Labels = require 'ridge.prune.labels'

local M = {}

local function move(f, x, from, y, to) f:put(y, to, f:of(x).axes[from], f:of(x).zero[from]) end

function M.permute(f, node, x)
  for to, from in ipairs(node.args.order) do move(f, x, from, node.outputs[1], to) end
end

function M.transpose(f, node, x)
  local a, b = node.args.a, node.args.b
  for axis = 1, #x.shape do
    move(f, x, axis, node.outputs[1], axis == a and b or axis == b and a or axis)
  end
end

function M.unsqueeze(f, node, x)
  for axis = 1, #x.shape do
    move(f, x, axis, node.outputs[1], axis < node.args.axis and axis or axis + 1)
  end
end

-- An axis is taken out: of one element, or one of its places.
local function without(f, node, x)
  local out = node.args.axis
  f:freeze(x, ('%s reads a place of it'):format(f:where()), out)
  for axis = 1, #x.shape do
    if axis ~= out then move(f, x, axis, node.outputs[1], axis < out and axis or axis - 1) end
  end
end

M.squeeze, M.select = without, without

function M.narrow(f, node, x)
  f:freeze(x, ('%s reads places of it by number'):format(f:where()), node.args.axis)
  for axis = 1, #x.shape do
    if axis ~= node.args.axis then move(f, x, axis, node.outputs[1], axis) end
  end
end

function M.expand(f, node, x)
  local y = node.outputs[1]
  for back = 0, #x.shape - 1 do
    local from, to = #x.shape - back, #y.shape - back
    if x.shape[from] == y.shape[to] then
      move(f, x, from, y, to)
    else
      f:freeze(x, ('%s repeats it'):format(f:where()), from)
    end
  end
end

function M.concat(f, node, ...)
  local y, along = node.outputs[1], node.args.axis
  local parts = { ... }
  for axis = 1, #y.shape do
    local labels, zero, known = {}, {}, false
    for k, x in ipairs(parts) do
      local own = f:labels_of(x, axis)
      if axis == along then
        local flags = f:zeros_of(x, axis)
        for i, label in ipairs(own) do
          labels[#labels + 1] = label
          zero[#labels] = flags[i] or false
        end
      elseif k == 1 then
        labels = own
      else
        f:join(labels, own)
      end
    end
    for _, label in ipairs(labels) do known = known or label ~= Labels.FIXED end
    if known then f:put(y, axis, labels, axis == along and zero or nil) end
  end
end

-- -- Reshape --------------------------------------------------------------------------------------

-- Runs of axes of both shapes that hold the same elements: {from, to} of each.
local function runs_of(a, b)
  local runs, i, j = {}, 1, 1
  while i <= #a or j <= #b do
    local run = { from = { i, i }, to = { j, j } }
    local n, m = a[i] or 1, b[j] or 1
    while n ~= m do
      if n < m then
        run.from[2] = run.from[2] + 1
        n = n * (a[run.from[2]] or 0)
      else
        run.to[2] = run.to[2] + 1
        m = m * (b[run.to[2]] or 0)
      end
      if n == 0 or m == 0 then return nil end
    end
    i, j = run.from[2] + 1, run.to[2] + 1
    runs[#runs + 1] = run
  end
  return runs
end

-- Several axes become one: each label stands as often as the other axes have places.
local function merge(f, x, from, y, to)
  local labelled
  for axis = from[1], math.min(from[2], #x.shape) do
    if f:of(x).axes[axis] then
      if labelled then return false end
      labelled = axis
    end
  end
  if not labelled then return end
  local inner = 1
  for axis = labelled + 1, from[2] do inner = inner * x.shape[axis] end
  local own, flags, labels, zero = f:of(x).axes[labelled], f:zeros_of(x, labelled), {}, {}
  for i = 0, y.shape[to] - 1 do
    local at = math.floor(i / inner) % #own + 1
    labels[i + 1], zero[i + 1] = own[at], flags[at] or false
  end
  f:put(y, to, labels, zero)
end

-- One axis becomes several: the first of more than one place has a label for each place, which all
-- that is in it go with.
local function split(f, x, from, y, to)
  local own, flags = f:of(x).axes[from], f:zeros_of(x, from)
  if not own then return end
  local first = to[1]
  while first < to[2] and y.shape[first] == 1 do first = first + 1 end
  local labels, zero, each = {}, {}, #own / y.shape[first]
  for i, label in ipairs(own) do
    local at = math.floor((i - 1) / each) + 1
    if not labels[at] then
      labels[at], zero[at] = label, true
    else
      f:join({ labels[at] }, { label })
    end
    zero[at] = zero[at] and flags[i] or false
  end
  f:put(y, first, labels, zero)
end

function M.reshape(f, node, x)
  local y = node.outputs[1]
  local runs = runs_of(x.shape, y.shape)
  if not runs then return false end
  for _, run in ipairs(runs) do
    local from, to = run.from, run.to
    if from[1] == from[2] and to[1] == to[2] then
      if x.shape[from[1]] and y.shape[to[1]] then move(f, x, from[1], y, to[1]) end
    elseif to[1] == to[2] then
      if merge(f, x, from, y, to[1]) == false then return false end
    elseif from[1] == from[2] then
      split(f, x, from[1], y, to)
    else
      return false
    end
  end
end

M.view = M.reshape

return M
