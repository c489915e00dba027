-- SPDX-License-Identifier: MIT
--- What pruning cost: answers beside those of the original, and of the controls, without which no
--- accuracy says anything of how weights were chosen.

local accuracy = require 'ridge.quant.accuracy'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'

local M = {}

local Outcome = {}
Outcome.__index = Outcome

local function percent(a) return ('%.2f %% [%.2f, %.2f]'):format(100 * a.share, 100 * a.lo,
  100 * a.hi) end

--- Raise unless somebody can train with it.
---@param f any
---@param what string the function's name, for errors
---@param needed boolean
function M.need_train(f, what, needed)
  if f == nil and not needed then return end
  if not blame.callable(f) then
    blame.raise(('%s: option train is function(net, epochs), got %s'):format(what, blame.show(f)),
      'EARG')
  end
end

--- What a run gives beside its net.
---@param method string
---@return table outcome
function M.new(method)
  return setmetatable({ method = method, rows = {}, candidates = {}, notes = {} }, Outcome)
end

--- Compare a net with the original on the rows of a loader, and remember it.
---@param name string 'pruned', or which control
---@param net table the original
---@param made table
---@param test table loader of (x, labels)
---@param what string the function's name, for errors
function Outcome:judge(name, net, made, test, what)
  self.candidates[#self.candidates + 1] = { name = name,
    accuracy = accuracy.pair(net, made, test, what) }
  return self
end

--- Is what was made shown to be better than a control? Both were judged on the same rows.
---@param name string of the control
---@param pair table accuracy of the control beside what was made
function Outcome:against(name, pair)
  local d, verdict = pair.difference, 'no difference was shown'
  if pair.p < 0.05 then verdict = d.share > 0 and 'better' or 'worse' end
  self.controls = self.controls or {}
  self.controls[#self.controls + 1] = { name = name, accuracy = pair, verdict = verdict }
  return self
end

--- Add a line.
---@param text string
function Outcome:note(text)
  self.notes[#self.notes + 1] = text
  return self
end

function Outcome:__tostring()
  local lines = { self.title or 'prune.' .. self.method }
  for _, row in ipairs(self.rows) do lines[#lines + 1] = row.text end
  if self.candidates[1] then
    local a = self.candidates[1].accuracy
    lines[#lines + 1] = ('Accuracy on %d rows: original %s'):format(a.n, percent(a.original))
    for _, c in ipairs(self.candidates) do
      a = c.accuracy
      lines[#lines + 1] = ('  %s: %s, difference %+.2f %% [%+.2f, %+.2f], McNemar p %.3g, answers '
        .. 'changed %d'):format(c.name, percent(a.quantized), 100 * a.difference.share,
        100 * a.difference.lo, 100 * a.difference.hi, a.p, a.changed)
    end
  end
  for _, c in ipairs(self.controls or {}) do
    local d = c.accuracy.difference
    lines[#lines + 1] = ('Beside %s: %s (%+.2f %% [%+.2f, %+.2f], p %.3g)'):format(c.name,
      c.verdict, 100 * d.share, 100 * d.lo, 100 * d.hi, c.accuracy.p)
  end
  for _, note in ipairs(self.notes) do lines[#lines + 1] = note end
  return table.concat(lines, '\n')
end

--- Print it.
function Outcome:print() print(tostring(self)) end

guard.result(Outcome)

return M
