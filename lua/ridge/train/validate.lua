-- SPDX-License-Identifier: MIT
--- Validation: what a net comes to on batches that it is not trained on.

local blame = require 'ridge.blame'
local Batch = require 'ridge.train.batch'
local dtype = require 'ridge.tensor.dtype'
local grad = require 'ridge.tensor.grad'
local losses = require 'ridge.nn.loss'
local memory = require 'ridge.memory'
local ref = require 'ridge.ffi.ref'

local M = {}

-- What a batch adds: its loss, what that counts by, its hits, and out of how many.
local function validated(self, x, y)
  x, y = self.batch:here(x), self.batch:here(y)
  local n, output = x:size(1), self.batch:forward(x)
  local loss, total, counts = losses.with_total(self.loss, output, y)
  local found = { total and Batch.sum(loss, total) or loss:to 'f64' * n, total or n }
  local axes = #output:size()
  if dtype.kind[y.dtype] ~= 'whole' or axes ~= #y:size() + 1 then return found end
  local hit = output:argmax(axes):eq(y):to 'f64'
  if counts and counts.count == hit.count then
    found[3], found[4] = (hit * counts:reshape(hit:size())):sum(), counts:sum()
  else
    found[3], found[4] = hit:mean() * n, n
  end
  return found
end

--- Loss, accuracy, and out of how many rows or labels that is: over all ranks, where there are
--- several; each has counted its own.
---@param trainer table
---@param loader table
---@return number loss
---@return number|nil accuracy
---@return number|nil n
function M.evaluated(trainer, loader)
  local together = trainer.together
  if together then
    together:check_loader(loader, 'Trainer:validate')
    together:settle()
  end
  trainer.model:eval()
  trainer.batch:place()
  local sums = {} -- where the model is: read once, at the end
  for x, y in loader:each() do
    if Batch.rows(x, y, together) > 0 then
      grad.no_grad(memory.scope, function()
        for i, each in pairs(validated(trainer, x, y)) do
          sums[i] = sums[i] and sums[i] + each or each
        end
        return sums
      end)
    end
  end
  for i, each in pairs(sums) do sums[i] = ref.is(each) and each:item() or each end
  if together then sums = together:add(sums, 4) end
  if not sums[1] then blame.raise('Trainer:validate: the loader gives no batch', 'EARG') end
  return sums[1] / sums[2], sums[3] and sums[3] / sums[4], sums[4]
end

return M
