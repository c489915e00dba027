-- SPDX-License-Identifier: MIT
--- A comparison of a net and a quantized one as text.

local unit = require 'ridge.show.unit'

local M = {}

local function percent(share) return ('%.2f %%'):format(100 * share) end
local function between(a) return ('%s [%s, %s]'):format(percent(a.share), percent(a.lo),
  percent(a.hi)) end

local function held(b)
  return ('%.3f MB (stored %s, packed %s), plan %s'):format(b.mb, unit.format('bytes', b.stored),
    unit.format('bytes', b.packed), unit.format('bytes', b.scratch))
end

local function about_answers(lines, a)
  lines[#lines + 1] = ('Accuracy on %d rows: %s -> %s'):format(a.n, between(a.original),
    between(a.quantized))
  lines[#lines + 1] = ('Difference: %+.2f %% [%+.2f, %+.2f], exact McNemar p %.3g (%d right only '
    .. 'before, %d only now)'):format(100 * a.difference.share, 100 * a.difference.lo,
    100 * a.difference.hi, a.p, a.only_original, a.only_quantized)
  lines[#lines + 1] = ('Answers changed: %d of %d; KL from the original: %.3g nats'):format(
    a.changed, a.n, a.kl)
end

local function about_coverage(lines, c)
  lines[#lines + 1] = ('In int8: %.1f %% of FLOP, %d of %d layers; %d conversions left'):format(
    100 * c.share, #c.int8, c.layers, c.conversions)
  if #c.paths > 0 then lines[#lines + 1] = 'Kernels: ' .. table.concat(c.paths, ', ') end
  for _, row in ipairs(c.left) do
    if row.why then
      lines[#lines + 1] = ('  %s (%s) is %s: %s'):format(row.name, row.class, row.kind, row.why)
    end
  end
end

--- The text of a comparison.
---@param r table of ridge.quant.compare
---@return string
function M.of(r)
  local lines = { ('Speedup: %.2fx [%.2f, %.2f]'):format(r.speedup, r.speedup_lo, r.speedup_hi) }
  lines[2] = ('Time: %s -> %s, input {%s}, plans in %d paired blocks'):format(
    unit.format('ms', r.original_ms), unit.format('ms', r.quantized_ms),
    table.concat(r.shape, ', '), r.comparison.blocks)
  lines[3] = ('Size: %s'):format(held(r.bytes.original))
  lines[4] = ('   -> %s: %.2fx smaller'):format(held(r.bytes.quantized),
    r.bytes.original.mb / r.bytes.quantized.mb)
  if r.accuracy then about_answers(lines, r.accuracy) end
  about_coverage(lines, r.coverage)
  for _, note in ipairs(r.coverage.notes) do lines[#lines + 1] = note end
  for _, note in ipairs(r.notes) do lines[#lines + 1] = note end
  return table.concat(lines, '\n')
end

return M
