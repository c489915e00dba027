-- SPDX-License-Identifier: MIT
--- Batches to calibrate with and to test on, and whether the same rows are in both.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'

local M = {}

local function check(loader, what, name)
  if type(loader) ~= 'table' or not blame.callable(loader.each) then
    blame.raise(('%s: option %s is a loader (ridge.data.Loader), got %s'):format(what, name,
      blame.show(loader)), 'EARG')
  end
end

--- The batches of an epoch, at most so many; an error where there is none.
---@param loader table with each(), as ridge.data.Loader
---@param most integer|nil
---@param what string the function's name, for errors
---@param name string the option, for errors
---@return function iterator
function M.each(loader, most, what, name)
  check(loader, what, name)
  local next_batch, n = loader:each(), 0
  return function()
    if most and n == most then return nil end
    local batch = { next_batch() }
    if batch[1] == nil then
      if n == 0 then blame.raise(('%s: %s has no batch'):format(what, name), 'EARG') end
      return nil
    end
    ref.need(batch[1], ('%s: a batch of %s'):format(what, name))
    n = n + 1
    return unpack(batch)
  end
end

--- The first batch of a loader, and a loader that still gives it: none is asked for twice, since a
--- loader that shuffles would give others.
---@param loader table
---@param what string the function's name, for errors
---@param name string the option, for errors
---@return Tensor x of the first batch
---@return table loader
function M.peek(loader, what, name)
  local next_batch = M.each(loader, nil, what, name)
  local first = { next_batch() }
  return first[1], { each = function()
    return function()
      if not first then return next_batch() end
      local batch = first
      first = nil
      return unpack(batch)
    end
  end }
end

-- -- The same rows ------------------------------------------------------------------------------

-- Each row as one number: its product with the same random direction.
local function marks_of(x)
  local rows = x:detach():to('cpu'):reshape(x:size(1), -1):to 'f64'
  local direction = make.randn(rows:size(2), 1, { dtype = 'f64', generator = random.generator(7) })
  return rows:matmul(direction):reshape(-1):tolist()
end

local Seen = {}
Seen.__index = Seen

--- What remembers rows.
---@return table seen
function M.seen() return setmetatable({ marks = {}, n = 0 }, Seen) end

--- Remember the rows of a batch.
---@param x Tensor
function Seen:add(x)
  if x.ndim == 0 then return end
  for _, mark in ipairs(marks_of(x)) do
    self.marks[('%.10g'):format(mark)] = true
    self.n = self.n + 1
  end
end

--- Raise where most rows of a loader were remembered: what was chosen on rows is not tested on
--- them.
---@param loader table
---@param what string the function's name, for errors
---@param name string what the loader is
---@param before string what the rows were remembered from
function Seen:refuse(loader, what, name, before)
  local rows, same = 0, 0
  for x in M.each(loader, nil, what, name) do
    if x.ndim > 0 then
      for _, mark in ipairs(marks_of(x)) do
        rows = rows + 1
        if self.marks[('%.10g'):format(mark)] then same = same + 1 end
      end
    end
  end
  if same * 2 > rows then
    blame.raise(('%s: %d of the %d rows of %s are rows of %s: what was chosen on data is not '
      .. 'tested on it'):format(what, same, rows, name, before), 'EARG')
  end
end

return M
