-- SPDX-License-Identifier: MIT
--- Nets in fewer bits: what it costs beside what it gains.

local late = require 'ridge.late'

return late.namespace({}, {
  Linear = { 'ridge.quant.linear', 'Linear' },
  dynamic = { 'ridge.quant.dynamic', 'dynamic' },
  half = { 'ridge.quant.half', 'half' },
  report = { 'ridge.quant.report', 'report' },
  compare = { 'ridge.quant.compare', 'compare' },
}, 'quant')
