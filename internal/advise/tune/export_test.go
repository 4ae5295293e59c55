package tune

// Spend is spend, for tests.
var Spend = spend
