"""Modules of the tables of .ort files and of checkpoints, made from the schema: fbs.Tensor.Tensor reads a tensor."""
from nacre import _flat_tables

_flat_tables.Schema("""
enum ArgType: INPUT OUTPUT
table ArgTypeAndIndex ORTM: ArgType i8, Index u32
table Attribute ORTM: Name string, DocString string, Type i32, F f32, I i64, S string, T Tensor, G Graph, Floats \
    [f32], Ints [i64], Strings [string], Tensors [Tensor], Graphs [Graph]
enum AttributeType: UNDEFINED FLOAT INT STRING TENSOR GRAPH FLOATS INTS STRINGS TENSORS GRAPHS SPARSE_TENSOR \
    SPARSE_TENSORS
table Checkpoint ODTC: Version i32, ModuleState ModuleState, OptimizerGroups [OptimizerGroup], PropertyBag PropertyBag
table DeprecatedKernelCreateInfos ORTM: NodeIndices [u32], KernelDefHashes [u64]
table DeprecatedNodeIndexAndKernelDefHash ORTM: NodeIndex u32, KernelDefHash u64
table DeprecatedSessionState ORTM: Kernels DeprecatedKernelCreateInfos, SubGraphSessionStates \
    [DeprecatedSubGraphSessionState]
table DeprecatedSubGraphSessionState ORTM: GraphId string, SessionState DeprecatedSessionState
table Dimension ORTM: Value DimensionValue, Denotation string
table DimensionValue ORTM: DimType i8, DimValue i64, DimParam string
enum DimensionValueType: UNKNOWN VALUE PARAM
struct EdgeEnd: NodeIndex u32, SrcArgIndex i32, DstArgIndex i32
table FloatProperty ODTC: Name string, Value f32
table Graph ORTM: Initializers [Tensor], NodeArgs [ValueInfo], Nodes [Node], MaxNodeIndex u32, NodeEdges \
    [NodeEdge], Inputs [string], Outputs [string], SparseInitializers [SparseTensor], RuntimeOptimizations \
    RuntimeOptimizations
table InferenceSession ORTM: OrtVersion string, Model Model, -, KernelTypeStrResolver KernelTypeStrResolver
table IntProperty ODTC: Name string, Value i64
table KernelTypeStrArgsEntry ORTM: KernelTypeStr string, Args [ArgTypeAndIndex]
table KernelTypeStrResolver ORTM: OpKernelTypeStrArgs [OpIdKernelTypeStrArgsEntry]
table MapType ORTM: KeyType i32, ValueType TypeInfo
table Model ORTM: IrVersion i64, OpsetImport [OperatorSetId], ProducerName string, ProducerVersion string, Domain \
    string, ModelVersion i64, DocString string, Graph Graph, GraphDocString string, MetadataProps [StringStringEntry]
table ModuleState ODTC: RequiresGradParams [Tensor], FrozenParams [Tensor], IsNominalState bool, HasExternalData bool
table Node ORTM: Name string, DocString string, Domain string, SinceVersion i32, Index u32, OpType string, Type \
    i32, ExecutionProviderType string, Inputs [string], Outputs [string], Attributes [Attribute], InputArgCounts \
    [i32], ImplicitInputs [string]
table NodeEdge ORTM: NodeIndex u32, InputEdges [EdgeEnd], OutputEdges [EdgeEnd]
enum NodeType: Primitive Fused
table NodesToOptimizeIndices ORTM: NodeIndices [u32], NumInputs u32, NumOutputs u32, HasVariadicInput bool, \
    HasVariadicOutput bool, NumVariadicInputs u32, NumVariadicOutputs u32
table OpIdKernelTypeStrArgsEntry ORTM: OpId string, KernelTypeStrArgs [KernelTypeStrArgsEntry]
table OperatorSetId ORTM: Domain string, Version i64
table OptimizerGroup ODTC: GroupName string, Step i64, InitialLearningRate f32, OptimizerStates \
    [ParameterOptimizerState]
table ParameterOptimizerState ODTC: ParamName string, Momentums [Tensor]
table PropertyBag ODTC: Ints [IntProperty], Floats [FloatProperty], Strings [StringProperty]
table RuntimeOptimizationRecord ORTM: ActionId string, NodesToOptimizeIndices NodesToOptimizeIndices, -, \
    ProducedOpIds [string]
table RuntimeOptimizationRecordContainerEntry ORTM: OptimizerName string, RuntimeOptimizationRecords \
    [RuntimeOptimizationRecord]
table RuntimeOptimizations ORTM: Records [RuntimeOptimizationRecordContainerEntry]
table SequenceType ORTM: ElemType TypeInfo
table Shape ORTM: Dim [Dimension]
table SparseTensor ORTM: Values Tensor, Indices Tensor, Dims [i64]
table StringProperty ODTC: Name string, Value string
table StringStringEntry ORTM: Key string, Value string
table Tensor ORTM: Name string, DocString string, Dims [i64], DataType i32, RawData [u8], StringData [string], \
    ExternalDataOffset i64 =-1
enum TensorDataType: UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 \
    COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ
table TensorTypeAndShape ORTM: ElemType i32, Shape Shape
table TypeInfo ORTM: Denotation string, ValueType u8, Value union
enum TypeInfoValue: NONE tensor_type sequence_type map_type
table ValueInfo ORTM: Name string, DocString string, Type TypeInfo
""", __name__).install(globals())
