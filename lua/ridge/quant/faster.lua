-- SPDX-License-Identifier: MIT
--- Whether a quantized layer is as fast as the one it stands for: measured in paired blocks of
--- plans, because at a few rows it often is not, and then the layer had better stay.

local capture = require('ridge.capture').capture
local inference = require('ridge.tensor.mode').inference
local ab = require('ridge.measure.ab').ab

local M = {}

local Asked = {}
Asked.__index = Asked

--- What asks about layers; layers alike are measured once.
---@return table asked
function M.asked() return setmetatable({ known = {} }, Asked) end

--- Compare two layers on an input.
---@param key string what is alike has the same key
---@param before table layer
---@param after table layer
---@param x Tensor
---@return table found keep (is it to be taken), ratio (time of `after` over that of `before`), lo,
---  hi, itself (what `before` differed from itself by, where that is why it is not taken)
function Asked:compare(key, before, after, x)
  if self.known[key] then return self.known[key] end
  local a, b = capture(inference, before, x), capture(inference, after, x)
  -- results differ by what rounding does, which is not in question here
  local found = ab { a = a, b = b, check = false, looks = 3 }
  a:release()
  b:release()
  -- "not slower" has to be shown: an open comparison decides for what was there
  local answer = { keep = found.verdict == 'faster' or found.verdict == 'equal',
    ratio = found.ratio, lo = found.ci_lo, hi = found.ci_hi }
  -- an interval below 1 that decides nothing: the one beside itself differs as much
  if not answer.keep and answer.hi < 1 and found.floor
      and (found.aa_fail or found.floor >= -math.log(found.ratio)) then
    answer.itself = math.exp(found.floor) - 1
  end
  self.known[key] = answer
  return answer
end

--- Why a layer stays, in words.
---@param found table of compare
---@param rows integer
---@param kind string|nil what the layer would be, 'i8' when left out
---@return string
function M.why(found, rows, kind)
  return ('not shown to be as fast in %s: %.2f [%.2f .. %.2f] of its time in f32 at %d row%s%s')
    :format(kind or 'i8', found.ratio, found.lo, found.hi, rows, rows == 1 and '' or 's',
    found.itself and (', where f32 differed from itself by up to %.0f %%'):format(
    100 * found.itself) or '')
end

return M
