-- SPDX-License-Identifier: MIT
--- Order statistics by counting, without a sort: a second implementation for tests.

local M = {}

--- The value with a rank: below it are fewer, up to it as many.
function M.ranked(list, rank)
  for _, v in ipairs(list) do
    local below, upto = 0, 0
    for _, w in ipairs(list) do
      below, upto = below + (w < v and 1 or 0), upto + (w <= v and 1 or 0)
    end
    if below < rank and rank <= upto then return v end
  end
end

--- Quantile of type 7 (Hyndman & Fan 1996): at place (n - 1) q, counted from 0, linear between two
--- ranks.
function M.quantile(list, q)
  local place = (#list - 1) * q
  local rank = math.floor(place)
  local lower, upper = M.ranked(list, rank + 1), M.ranked(list, math.min(rank + 2, #list))
  return lower * (1 - (place - rank)) + upper * (place - rank)
end

return M
