-- SPDX-License-Identifier: MIT
--- What is pruned together: one weight, 16 outputs of one input, n of m, a whole row.
---
--- A weight is a matrix here, [outputs x the rest]; units are numbered in its order.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local ops = require 'ridge.tensor.ops'

local M = {}

local BLOCK = 16 -- as ridge.sparse keeps blocks

M.NAMES = "'element', 'block' (16 outputs of one input), 'row' or 'filter' (all of an output), or "
  .. "'2:4' (2 of 4 inputs stay)"

local KINDS = { element = 'element', block = 'block', row = 'row', filter = 'row' }

--- A pattern by its name.
---@param name string
---@param what string the function's name, for errors
---@return table pattern kind, and n, m of n:m
function M.of(name, what)
  if KINDS[name] then return { name = name, kind = KINDS[name] } end
  local n, m = name:match '^(%d+):(%d+)$'
  n, m = tonumber(n), tonumber(m)
  if n and n >= 1 and n < m and m <= 1024 then
    return { name = name, kind = 'n:m', n = n, m = m }
  end
  blame.raise(('%s: option pattern is %s; it is %s'):format(what, blame.show(name), M.NAMES),
    'EARG')
end

--- Why a matrix has not this pattern, or nil.
---@param pattern table
---@param columns integer
---@return string|nil
function M.why_not(pattern, columns)
  if pattern.kind == 'n:m' and columns % pattern.m ~= 0 then
    return ('groups of %d do not divide its %d inputs'):format(pattern.m, columns)
  end
end

-- Rows of zeros behind those of w, so that whole blocks come out.
local function in_blocks(w)
  local rows, columns = w:size(1), w:size(2)
  local short = -rows % BLOCK
  if short > 0 then
    w = ops.concat({ w, make.zeros(short, columns, { dtype = w.dtype, device = w.device }) }, 1)
  end
  return w:reshape((rows + short) / BLOCK, BLOCK, columns)
end

--- What each unit is worth: the mean of its weights' worth, so that units of all sizes compare.
---@param pattern table
---@param worth Tensor f32 [rows x columns], none below 0
---@return Tensor f32 [units]
function M.score(pattern, worth)
  if pattern.kind == 'row' then return worth:mean(2) end
  if pattern.kind == 'block' then
    local blocks = in_blocks(worth)
    local n = in_blocks(make.ones(worth:size(1), 1, { device = worth.device })):sum(2)
    return (blocks:sum(2) / n):reshape(-1)
  end
  return worth:reshape(-1)
end

--- The mask in which the units that stay are true.
---@param pattern table
---@param keep Tensor bool [units]
---@param rows integer
---@param columns integer
---@return Tensor bool [rows x columns]
function M.mask(pattern, keep, rows, columns)
  if pattern.kind == 'row' then return keep:reshape(rows, 1):expand(rows, columns) end
  if pattern.kind == 'block' then
    local n = math.ceil(rows / BLOCK)
    return keep:reshape(n, 1, columns):expand(n, BLOCK, columns):reshape(n * BLOCK, columns)
      :narrow(1, 1, rows)
  end
  return keep:reshape(rows, columns)
end

--- How many weights each unit has: the last blocks of a layer can be smaller ones.
---@param pattern table
---@param rows integer
---@param columns integer
---@param device string
---@return Tensor f64 [units]
function M.sizes(pattern, rows, columns, device)
  local on = { dtype = 'f64', device = device }
  if pattern.kind == 'row' then return make.full(columns, rows, on) end
  if pattern.kind == 'block' then
    return in_blocks(make.ones(rows, columns, on)):sum(2):reshape(-1)
  end
  return make.ones(rows * columns, on)
end

--- Which units stay, where a share of all weights is to go: those that are worth least go, of
--- equals the first, as many as come closest to it.
---@param score Tensor f32 [units]
---@param sizes Tensor f64 [units]
---@param share number
---@return Tensor bool [units]
function M.keep(score, sizes, share)
  local keep = make.ones(score.count, { dtype = 'bool', device = score.device })
  local _, order = score:sort(1)
  local size = sizes:index_select(1, order)
  -- a unit goes where more than half of it is below the target
  local n = (size:cumsum(1) - size / 2):le(share * sizes:sum():item()):to('i64'):sum():item()
  if n == 0 then return keep end
  return keep:scatter(1, order:narrow(1, 1, n), make.zeros(n, { dtype = 'bool',
    device = score.device }))
end

--- The mask of n:m: in each m weights of a row that follow each other, the n that are worth most.
---@param pattern table
---@param worth Tensor f32 [rows x columns]
---@return Tensor bool [rows x columns]
function M.some_of(pattern, worth)
  local rows, columns = worth:size(1), worth:size(2)
  local groups = worth:reshape(-1, pattern.m)
  local _, order = groups:sort(2, { descending = true })
  local on = { dtype = 'bool', device = worth.device }
  return make.zeros(groups:size(1), pattern.m, on)
    :scatter(2, order:narrow(2, 1, pattern.n), make.ones(groups:size(1), pattern.n, on))
    :reshape(rows, columns)
end

return M
