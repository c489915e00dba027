-- SPDX-License-Identifier: MIT
--- A step by rank as a picture: two lanes for each, what its processor does and what becomes of its
--- messages.

local axes = require 'ridge.plot.axes'
local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local M = {}

local RANK = 62 -- of height
local LEAST = 400 -- so high at least: a figure of less is not saved
local RANKS = 32 -- more are not drawn
local PALE = 0.35 -- of the ink: steps before and behind
local LANES = { processor = { at = -0.16, share = 0.40 }, messages = { at = 0.24, share = 0.26 } }

local function inks(t)
  return { compute = color.category(1, t.name), wait = t.neutral,
    transfer = color.category(2, t.name) }
end

local LEGEND = { { 'compute', 'computes' }, { 'transfer', 'messages go, and are added up' },
  { 'wait', 'waits: the processor for messages, messages for other ranks' } }

local function draw_legend(c, t, box, y, ink)
  local x = box.x
  for _, each in ipairs(LEGEND) do
    local w = 18 + c:measure(each[2], t.size.note) + 22
    if x > box.x and x + w > box.x + box.w then x, y = box.x, y + 20 end
    c:rect(x, y - 6, 12, 12, ink[each[1]], 2)
    c:text(x + 18, y, each[2], { size = t.size.note, color = t.text, valign = 'middle' })
    x = x + w
  end
end

local function draw(found, ranks)
  return function(c, t, box)
    local ink = inks(t)
    local left = c:measure('processor', t.size.note) + c:measure('rank 00', t.size.tick) + 18
    local right = c:measure('computes 100 %', t.size.note) + 12
    local area = { x = box.x + left + 12, y = box.y + 6, w = box.w - left - right - 18,
      h = box.h - 84 }
    local panel = axes.panel(c, t, area, {
      x = { scale = scale.linear(0, found.us * 1e3), kind = 'ns', label = 'since the step began' },
      y = { scale = scale.linear(0.5, ranks + 0.5), ticks = {}, minor = false } })
    panel:frame()
    local height = area.h / ranks
    local middle = {}
    for r = 1, ranks do
      local y = panel:py(ranks - r + 1)
      middle[r] = y
      if r > 1 then
        local above = c:crisp(y - height / 2)
        c:line(area.x, above, area.x + area.w, above, t.grid, t.hair)
      end
      c:text(box.x, y, ('rank %d'):format(r - 1), { size = t.size.tick, bold = true,
        color = t.text, valign = 'middle' })
      for lane, own in pairs(LANES) do
        c:text(area.x - 10, y + own.at * height, lane, { size = t.size.note, color = t.muted,
          align = 'right', valign = 'middle' })
      end
      c:text(area.x + area.w + 10, y + LANES.processor.at * height, ('computes %.0f %%'):format(
        100 * found[r].compute), { size = t.size.note, color = t.muted, valign = 'middle' })
    end
    for _, row in ipairs(found.rows) do
      if row.rank < ranks then
        local own = LANES[row.lane]
        local x, h = panel:px_end(row.from_us * 1e3), own.share * height
        c:rect(x, middle[row.rank + 1] + own.at * height - h / 2,
          math.max(panel:px_end(row.to_us * 1e3) - x, t.hair), h,
          row.own and ink[row.what] or color.mix(t.paper, ink[row.what], PALE))
      end
    end
    draw_legend(c, t, box, box.y + box.h - 22, ink)
  end
end

local function span(us) return unit.format('ns', us * 1e3) end

--- What people read of it.
---@param found table of ridge.scaling.spans.step
---@return string finding
---@return string clocks how far times of ranks can be compared
function M.sentences(found)
  local least, most, transfer, hidden = math.huge, 0, 0, 0
  for _, own in ipairs(found) do
    least, most = math.min(least, own.compute), math.max(most, own.compute)
    transfer, hidden = transfer + own.transfer_us, hidden + own.hidden_us
  end
  local share = ('%.0f'):format(100 * least)
  if share ~= ('%.0f'):format(100 * most) then share = ('%s to %.0f'):format(share, 100 * most) end
  local finding = ('%s for %s %% of this step; %s'):format(#found == 1 and '1 rank computes'
    or ('%d ranks compute'):format(#found), share, transfer > 0
    and ('%.0f %% of the time of transfers lies beside computing.'):format(100 * hidden / transfer)
    or 'nothing is transferred.')
  return finding, found.off_us and ('Clocks of several machines are put on that of rank 0 by '
    .. 'barriers before and behind: each rank may be off by %s at most.'):format(
    span(found.off_us)) or #found > 1 and 'All ranks read one clock.' or ''
end

--- The picture.
---@param found table of ridge.scaling.spans.step
---@param facts table script, device
---@return table figure
function M.make(found, facts)
  local finding, clocks = M.sentences(found)
  local ranks = math.min(#found, RANKS)
  local caption = { ('The step of middle length of %d, in a start in which all of it is recorded. '
    .. 'For each rank it begins and ends where a backward pass has ended; what is pale belongs to '
    .. 'the steps before and behind. A rank that does not wait counts as computing, also where '
    .. 'ranks share processors and it stands still.'):format(found.steps), clocks }
  if ranks < #found then
    caption[#caption + 1] = ('Ranks from %d on are not drawn.'):format(ranks)
  end
  return figure.new { kind = 'scaling', rows = found.rows, opt = {},
    natural = { 1080, math.max(LEAST, 282 + RANK * ranks) },
    title = ('A step of %s by rank'):format(facts.script),
    subtitle = facts.device or '', finding = finding, caption = caption,
    draw = draw(found, ranks) }
end

return M
