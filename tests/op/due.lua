-- SPDX-License-Identifier: MIT
-- due: what a run tries that has no time for every sample. RIDGE_TEST_EVERY = n tries about each
-- n-th of them, and always the first of each kind, so that nothing is left out wholly.
--
-- Drawn, not counted: a count goes in step with the layouts and types that a loop walks, and leaves
-- the same ones out in every run. RIDGE_SEED draws others.

local M = {}

--- A whole number that the environment says, or refuse to test less than somebody meant to.
---@param name string
---@param otherwise integer where it is not set, or empty
---@param least integer|nil default 1
---@return integer
function M.setting(name, otherwise, least)
  local text = os.getenv(name) or ''
  if text == '' then return otherwise end
  local n = tonumber(text)
  if not n or n ~= math.floor(n) or n < (least or 1) or n > 1e15 then
    error(('%s is %q; expected a whole number from %d'):format(name, text, least or 1), 0)
  end
  return n
end

M.EVERY = M.setting('RIDGE_TEST_EVERY', 1)

--- What says of each sample whether it is tried.
---@param every integer|nil default RIDGE_TEST_EVERY
---@return function is_due called with the kinds of a sample, texts: its operation and type, its
---  operation and layout, ...; true where it is the first of one of them, or drawn
---@return function asked how often that was
function M.new(every)
  every = every or M.EVERY
  local state, seen, asked = M.setting('RIDGE_SEED', 1, 0) % 2147483648, {}, 0
  return function(...)
    local first = false
    asked = asked + 1
    for i = 1, select('#', ...) do
      local kind = i .. ' ' .. select(i, ...)
      first = first or not seen[kind]
      seen[kind] = true
    end
    state = (state * 1103515245 + 12345) % 2147483648
    return first or state / 2147483648 < 1 / every
  end, function() return asked end
end

return M
